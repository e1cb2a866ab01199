package firehose

// DecodeSpare is what decoding may overwrite behind its result.
const DecodeSpare = decodeSpare

// What tests of the package look at from outside.
var (
	AppendEncode = appendEncode
	AppendDecode = appendDecode
)
