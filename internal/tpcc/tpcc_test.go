package tpcc_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"icehose/internal/tpcc"
)

func TestLastName(t *testing.T) {
	// The example of clause 4.3.2.3 is 371.
	for number, want := range map[int]string{0: "BARBARBAR", 371: "PRICALLYOUGHT", 40: "BARPRESBAR", 999: "EINGEINGEING"} {
		if got := tpcc.LastName(number); got != want {
			t.Errorf("LastName(%d) = %q, want %q", number, got, want)
		}
	}
}

func TestNURand(t *testing.T) {
	tests := []struct {
		name       string
		first      int // random(0, a)
		second     int // random(x, y)
		a, x, y, c int
		want       int
	}{
		{"or of the two draws", 1, 6, 255, 1, 10, 0, 8},
		{"constant shifts", 1, 6, 255, 1, 10, 3, 1},
		{"wraps at the range", 255, 1, 255, 0, 99, 10, 65},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			draws := []int{tt.first, tt.second}
			var bounds [][2]int
			got := tpcc.NURand(func(from, to int) int {
				bounds = append(bounds, [2]int{from, to})
				return draws[len(bounds)-1]
			}, tt.a, tt.x, tt.y, tt.c)
			if got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
			if diff := cmp.Diff([][2]int{{0, tt.a}, {tt.x, tt.y}}, bounds); diff != "" {
				t.Errorf("draws (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNURandStaysInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.IntRange(0, 100).Draw(t, "x")
		y := rapid.IntRange(x, 100_000).Draw(t, "y")
		a := rapid.SampledFrom([]int{255, 1023, 8191}).Draw(t, "a")
		c := rapid.IntRange(0, a).Draw(t, "c")
		got := tpcc.NURand(func(from, to int) int { return rapid.IntRange(from, to).Draw(t, "draw") }, a, x, y, c)
		if got < x || got > y {
			t.Fatalf("NURand(%d, %d, %d) with constant %d is %d", a, x, y, c, got)
		}
	})
}

func TestFullScaleOfTwoWarehouses(t *testing.T) {
	s := tpcc.Full(2)
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	districts := s.Warehouses * s.Districts
	// Orders have ten lines on average.
	rows := s.Warehouses + districts + districts*(2*s.Customers+s.Orders+s.NewOrders+10*s.Orders) + s.Items + s.Warehouses*s.Items
	if rows < 1_090_000 || rows > 1_110_000 {
		t.Errorf("two warehouses have %d rows, want about 1.1 million", rows)
	}
}

func TestScaleValidate(t *testing.T) {
	tests := []struct {
		name  string
		apply func(*tpcc.Scale)
		want  string
	}{
		{"no warehouse", func(s *tpcc.Scale) { s.Warehouses = 0 }, "warehouses is 0"},
		{"fewer items than an order has lines", func(s *tpcc.Scale) { s.Items = 14 }, "items is 14"},
		{"eleven districts have no stock column", func(s *tpcc.Scale) { s.Districts = 11 }, "districts is 11"},
		{"more new orders than orders", func(s *tpcc.Scale) { s.NewOrders = s.Orders + 1 }, "new_orders is 13"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := tpcc.Tiny()
			tt.apply(&s)
			if err := s.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestTablesAreSorted(t *testing.T) {
	tables := tpcc.Tables()
	if len(tables) != 9 {
		t.Fatalf("%d tables, want nine", len(tables))
	}
	for child, parent := range map[string]string{"district": "warehouse", "customer": "district", "orders": "customer", "new_order": "orders", "stock": "item", "order_line": "stock"} {
		if slices.Index(tables, child) < slices.Index(tables, parent) {
			t.Errorf("%s comes before %s, which it references", child, parent)
		}
	}
}
