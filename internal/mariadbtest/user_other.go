//go:build !unix

package mariadbtest

import "syscall"

type processAttributes = syscall.SysProcAttr

// giveTo has nothing to do where there is no root.
func giveTo(string) (*processAttributes, error) { return &processAttributes{}, nil }
