package tpcc

import (
	"math/rand/v2"
	"strings"
)

// A random is one stream of random choices, as clause 4.3.2 defines them.
type random struct {
	*rand.Rand
	cLast, cCustomer, cItem int
}

// Streams of one seed are independent of each other. Those of terminals start
// at terminalStream.
const (
	constantStream = iota
	itemStream
	warehouseStream
	scheduleStream
	terminalStream
)

func newRandom(seed, stream uint64, constants constants) *random {
	return &random{Rand: rand.New(rand.NewPCG(seed, stream)), cLast: constants.last, cCustomer: constants.customer, cItem: constants.item}
}

// constants are the C values of clause 2.1.6, fixed for a run.
type constants struct{ last, customer, item int }

// constantsOf returns the constants of the load and of the run. Clause
// 2.1.6.1 bounds how far the two for the last name may be apart.
func constantsOf(seed uint64) (load, run constants) {
	r := rand.New(rand.NewPCG(seed, constantStream))
	load = constants{last: r.IntN(256), customer: r.IntN(1024), item: r.IntN(8192)}
	run = load
	for {
		run.last = r.IntN(256)
		delta := run.last - load.last
		if delta < 0 {
			delta = -delta
		}
		if delta >= 65 && delta <= 119 && delta != 96 && delta != 112 {
			return load, run
		}
	}
}

// uniform returns a number of [from, to].
func (r *random) uniform(from, to int) int { return from + r.IntN(to-from+1) }

// NURand is the non-uniform random function of clause 2.1.6: random(0,a) and
// random(x,y) are the two draws, c the constant.
func NURand(draw func(from, to int) int, a, x, y, c int) int {
	return ((draw(0, a)|draw(x, y))+c)%(y-x+1) + x
}

func (r *random) customerID(customers int) int {
	return NURand(r.uniform, 1023, 1, customers, r.cCustomer)
}

func (r *random) itemID(items int) int {
	return NURand(r.uniform, 8191, 1, items, r.cItem)
}

// lastName returns a name that some customer of a district has.
func (r *random) lastName(customers int) string {
	return LastName(NURand(r.uniform, 255, 0, min(customers, 1000)-1, r.cLast))
}

// LastName returns the last name of clause 4.3.2.3 for a number of 0 to 999.
func LastName(number int) string {
	syllables := [...]string{"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"}
	return syllables[number/100%10] + syllables[number/10%10] + syllables[number%10]
}

// alphabet holds what clause 4.3.2.2 asks for, and a few characters that
// text formats treat specially or that take several bytes.
const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" +
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" + ` "\/,{ßéж漢🙂`

// alphaString returns between from and to characters.
func (r *random) alphaString(from, to int) string {
	letters := alphabetRunes
	var b strings.Builder
	for range r.uniform(from, to) {
		b.WriteRune(letters[r.IntN(len(letters))])
	}
	return b.String()
}

var alphabetRunes = []rune(alphabet) //nolint:gochecknoglobals // constant

func (r *random) digits(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('0' + r.IntN(10))
	}
	return string(b)
}

func (r *random) letters(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('A' + r.IntN(26))
	}
	return string(b)
}

// zip returns a zip code of clause 4.3.2.7.
func (r *random) zip() string { return r.digits(4) + "11111" }

// original returns a text of from to to characters, one in ten with the word
// ORIGINAL in it (clause 4.3.3.1).
func (r *random) original(from, to int) string {
	text := []rune(r.alphaString(from, to))
	if r.IntN(10) == 0 {
		copy(text[r.IntN(len(text)-7):], []rune("ORIGINAL"))
	}
	return string(text)
}
