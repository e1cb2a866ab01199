//go:build unix

package mariadbtest

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

type processAttributes = syscall.SysProcAttr

// giveTo returns the attributes of a process that may run the server, and
// gives it the folder: MariaDB refuses to run as root.
func giveTo(folder string) (*processAttributes, error) {
	if os.Geteuid() != 0 {
		return &processAttributes{}, nil
	}
	account, err := user.Lookup("mysql")
	if err != nil {
		if account, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("find a user other than root: %w", err)
		}
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read user id: %w", err)
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read group id: %w", err)
	}
	if err := os.Chown(folder, int(uid), int(gid)); err != nil {
		return nil, err
	}
	return &processAttributes{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}
