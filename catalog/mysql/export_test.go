package mysql

var (
	DeniedXA = deniedXA
	HiddenXA = hiddenXA
)
