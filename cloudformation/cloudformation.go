// Package cloudformation holds the templates that people deploy, as they are in
// this folder. Each can be used by itself; icehose stack generate fills the
// parts between the comments icehose:begin and icehose:end from a pipeline file.
package cloudformation

import "embed"

// Templates are the templates and stack-policy.json.
//
//go:embed *.yaml stack-policy.json create-only.json
var Templates embed.FS
