package firehose

// What tests of the package look at from outside.
var (
	AppendEncode = appendEncode
	AppendDecode = appendDecode
)
