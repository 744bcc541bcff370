package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run prints the completion of a shell.
func (c *completionCmd) Run(e *env, app *kong.Kong) error {
	switch c.Shell {
	case "bash":
		return bashCompletion(e.out, app.Model)
	case "zsh":
		return zshCompletion(e.out, app.Model)
	}
	return fishCompletion(e.out, app.Model)
}

// eachCommand calls fn with the program and each visible command, and the words that lead to it.
func eachCommand(node *kong.Node, path string, fn func(node *kong.Node, path string)) {
	fn(node, path)
	for _, child := range node.Children {
		if child.Type == kong.CommandNode && !child.Hidden {
			eachCommand(child, strings.TrimSpace(path+" "+child.Name), fn)
		}
	}
}

// flagsOf are the visible flags of a command, its own first, as they are typed.
func flagsOf(node *kong.Node) (flags []*kong.Flag) {
	for _, group := range node.AllFlags(true) {
		flags = append(flags, group...)
	}
	return flags
}

func spellings(f *kong.Flag) []string {
	out := []string{"--" + f.Name}
	if f.Short != 0 {
		out = append(out, "-"+string(f.Short))
	}
	return out
}

// wordsAt are what may stand behind the words of a path: commands, values of its argument, flags.
func wordsAt(node *kong.Node) (words []string) {
	for _, child := range node.Children {
		if child.Type == kong.CommandNode && !child.Hidden {
			words = append(words, child.Name)
		}
	}
	for _, arg := range node.Positional {
		words = append(words, enumOf(arg)...)
	}
	for _, f := range flagsOf(node) {
		words = append(words, spellings(f)...)
	}
	return words
}

func enumOf(v *kong.Value) []string {
	if v.Enum == "" {
		return nil
	}
	return slices.DeleteFunc(strings.Split(v.Enum, ","), func(s string) bool { return s == "" })
}

// shellTables writes the functions that bash and zsh share: _pave_words PATH, _pave_values PATH FLAG and _pave_path, which
// sets at to the commands among its arguments. It is not called path, which is the shell's own in zsh.
func shellTables(w io.Writer, app *kong.Application) {
	fmt.Fprint(w, "_pave_words() {\n  case \"$1\" in\n")
	eachCommand(app.Node, "", func(node *kong.Node, path string) {
		fmt.Fprintf(w, "    '%s') echo '%s' ;;\n", path, strings.Join(wordsAt(node), " "))
	})
	fmt.Fprint(w, "  esac\n}\n_pave_values() {\n  case \"$1 $2\" in\n")
	eachCommand(app.Node, "", func(node *kong.Node, path string) {
		for _, f := range flagsOf(node) {
			if values := enumOf(f.Value); len(values) > 0 {
				for _, name := range spellings(f) {
					fmt.Fprintf(w, "    '%s %s') echo '%s' ;;\n", path, name, strings.Join(values, " "))
				}
			}
		}
	})
	fmt.Fprint(w, "  esac\n}\n_pave_path() {\n  local word next\n  at=''\n  for word in \"$@\"; do\n    next=\"${at:+$at }$word\"\n    case \"$next\" in\n")
	var paths []string
	eachCommand(app.Node, "", func(_ *kong.Node, path string) {
		if path != "" {
			paths = append(paths, "'"+path+"'")
		}
	})
	fmt.Fprintf(w, "      %s) at=\"$next\" ;;\n    esac\n  done\n}\n", strings.Join(paths, "|"))
}

func bashCompletion(w io.Writer, app *kong.Application) error {
	fmt.Fprintln(w, "# Completion of pave for bash: source it, or put it into the folder of bash-completion.")
	shellTables(w, app)
	_, err := io.WriteString(w, `_pave() {
  local at current="${COMP_WORDS[COMP_CWORD]}" values=''
  _pave_path "${COMP_WORDS[@]:1:COMP_CWORD-1}"
  [ "$COMP_CWORD" -gt 1 ] && values="$(_pave_values "$at" "${COMP_WORDS[COMP_CWORD-1]}")"
  COMPREPLY=($(compgen -W "${values:-$(_pave_words "$at")}" -- "$current"))
}
complete -o default -F _pave pave
`)
	return err
}

func zshCompletion(w io.Writer, app *kong.Application) error {
	fmt.Fprintln(w, "#compdef pave")
	shellTables(w, app)
	_, err := io.WriteString(w, `_pave() {
  local at values=''
  _pave_path "${(@)words[2,CURRENT-1]}"
  [ "$CURRENT" -gt 2 ] && values="$(_pave_values "$at" "${words[CURRENT-1]}")"
  compadd -- ${=${values:-$(_pave_words "$at")}} || _files
}
if [ "$funcstack[1]" = "_pave" ]; then _pave "$@"; else compdef _pave pave; fi
`)
	return err
}

func fishCompletion(w io.Writer, app *kong.Application) error {
	fmt.Fprint(w, "# Completion of pave for fish.\nfunction __pave_path\n  set -l path ''\n  for word in (commandline -opc)[2..-1]\n    set -l next (string trim -- \"$path $word\")\n    switch \"$next\"\n      case")
	eachCommand(app.Node, "", func(_ *kong.Node, path string) {
		if path != "" {
			fmt.Fprintf(w, " '%s'", path)
		}
	})
	fmt.Fprint(w, "\n        set path \"$next\"\n    end\n  end\n  test \"$path\" = \"$argv[1]\"\nend\n")
	var err error
	eachCommand(app.Node, "", func(node *kong.Node, path string) {
		at := fmt.Sprintf("complete -c pave -n \"__pave_path '%s'\"", path)
		for _, child := range node.Children {
			if child.Type == kong.CommandNode && !child.Hidden {
				fmt.Fprintf(w, "%s -f -a %s -d '%s'\n", at, child.Name, fishText(child.Help))
			}
		}
		for _, arg := range node.Positional {
			if values := enumOf(arg); len(values) > 0 {
				fmt.Fprintf(w, "%s -f -a '%s'\n", at, strings.Join(values, " "))
			}
		}
		for _, f := range flagsOf(node) {
			line := at + " -l " + f.Name
			if f.Short != 0 {
				line += " -s " + string(f.Short)
			}
			if values := enumOf(f.Value); len(values) > 0 {
				line += " -x -a '" + strings.Join(values, " ") + "'"
			} else if !f.IsBool() {
				line += " -r"
			}
			_, err = fmt.Fprintf(w, "%s -d '%s'\n", line, fishText(f.Help))
		}
	})
	return err
}

func fishText(s string) string {
	return strings.NewReplacer("\\", "\\\\", "'", "\\'", "\n", " ").Replace(s)
}
