// Package account gives a folder to the account that a test's server runs
// under. In comes the account's name and a folder; out come the attributes of
// the server's process. It promises nothing about what stands in the folder.
package account
