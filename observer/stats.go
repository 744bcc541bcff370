package observer

import (
	"math"
	"slices"
)

// wilsonLower is the lower bound of the Wilson score interval at 95 % for hits of n (Wilson 1927), 0 for n = 0.
func wilsonLower(hits, n int) float64 {
	if n == 0 {
		return 0
	}
	const z = 1.959963984540054
	p, m := float64(hits)/float64(n), float64(n)
	centre := p + z*z/(2*m)
	spread := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, (centre-spread)/(1+z*z/m))
}

// wilsonUpper is the upper bound of that interval, 1 for n = 0.
func wilsonUpper(hits, n int) float64 { return 1 - wilsonLower(n-hits, n) }

// poissonTail is P(X >= n) for X Poisson with mean lambda. Where n is not above the mean, so that there is nothing
// to test, it returns 1.
func poissonTail(n int, lambda float64) float64 {
	if lambda <= 0 {
		if n > 0 {
			return 0
		}
		return 1
	}
	if float64(n) <= lambda {
		return 1
	}
	lg, _ := math.Lgamma(float64(n) + 1)
	term := math.Exp(-lambda + float64(n)*math.Log(lambda) - lg)
	sum := 0.0
	for k := float64(n); term > sum*1e-16; {
		sum += term
		k++
		term *= lambda / k
	}
	return min(1, sum)
}

// binomialTail is P(X >= hits) for X binomial(n, p).
func binomialTail(hits, n int, p float64) float64 {
	switch {
	case hits <= 0 || p >= 1:
		return 1
	case p <= 0:
		return 0
	}
	lgN, _ := math.Lgamma(float64(n) + 1)
	sum := 0.0
	for k := hits; k <= n; k++ {
		lgK, _ := math.Lgamma(float64(k) + 1)
		lgR, _ := math.Lgamma(float64(n-k) + 1)
		sum += math.Exp(lgN - lgK - lgR + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
	}
	return min(1, sum)
}

// benjaminiHochberg returns the largest p value that is rejected at false discovery rate q (Benjamini and Hochberg
// 1995), -1 when none is.
func benjaminiHochberg(p []float64, q float64) float64 {
	sorted := slices.Clone(p)
	slices.Sort(sorted)
	for i := len(sorted) - 1; i >= 0; i-- {
		if sorted[i] <= q*float64(i+1)/float64(len(sorted)) {
			return sorted[i]
		}
	}
	return -1
}
