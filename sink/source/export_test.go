package source

// CompareNumbers is how names are compared in which numbers count.
func CompareNumbers(a, b string) int { return compareNumbers(a, b) }
