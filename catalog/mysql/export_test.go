package mysql

var (
	ConfigOf = configOf
	DeniedXA = deniedXA
	HiddenXA = hiddenXA
)
