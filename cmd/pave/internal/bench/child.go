package bench

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
)

// child is a process that says lines, and ends when its input does. It is for one goroutine.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner // of its standard output
}

func startChild(cmd *exec.Cmd) (*child, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &child{cmd, in, bufio.NewScanner(out)}, nil
}

// ready reads lines up to the first that is one, and drops what comes after it until the process ends. It reports whether
// there was one.
func (c *child) ready(is func(line string) bool) bool {
	for c.lines.Scan() {
		if is(c.lines.Text()) {
			go func() {
				for c.lines.Scan() { // an unread pipe would stop the process
				}
			}()
			return true
		}
	}
	return false
}

// end ends the process's input and waits for it.
func (c *child) end() error { return errors.Join(c.in.Close(), c.cmd.Wait()) }
