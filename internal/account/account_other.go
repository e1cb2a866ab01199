//go:build !unix

package account

import "syscall"

// GiveTo has nothing to do where there is no root.
func GiveTo(string, string) (*syscall.SysProcAttr, error) { return &syscall.SysProcAttr{}, nil }
