package tpcc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// timeLayout is PostgreSQL's text of a timestamp.
const timeLayout = "2006-01-02 15:04:05.999999"

// A copyWriter writes rows in PostgreSQL's COPY text format.
type copyWriter struct {
	out   *bufio.Writer
	line  []byte
	begun bool
	err   error
}

func (c *copyWriter) field() {
	if c.begun {
		c.line = append(c.line, '\t')
	}
	c.begun = true
}

func (c *copyWriter) ints(numbers ...int) *copyWriter {
	for _, n := range numbers {
		c.field()
		c.line = strconv.AppendInt(c.line, int64(n), 10)
	}
	return c
}

func (c *copyWriter) null() *copyWriter {
	c.field()
	c.line = append(c.line, `\N`...)
	return c
}

func (c *copyWriter) text(texts ...string) *copyWriter {
	for _, s := range texts {
		c.field()
		for i := range len(s) {
			if s[i] == '\\' {
				c.line = append(c.line, '\\')
			}
			c.line = append(c.line, s[i]) // the alphabet has no tabs and no line ends
		}
	}
	return c
}

// decimal writes units of 10^-scale.
func (c *copyWriter) decimal(units, scale int) *copyWriter {
	return c.text(decimal(units, scale))
}

func (c *copyWriter) time(t time.Time) *copyWriter {
	return c.text(t.Format(timeLayout))
}

func (c *copyWriter) end() {
	c.line = append(c.line, '\n')
	if _, err := c.out.Write(c.line); err != nil && c.err == nil {
		c.err = err
	}
	c.line, c.begun = c.line[:0], false
}

// decimal renders units of 10^-scale.
func decimal(units, scale int) string {
	sign := ""
	if units < 0 {
		sign, units = "-", -units
	}
	divisor := 1
	for range scale {
		divisor *= 10
	}
	return fmt.Sprintf("%s%d.%0*d", sign, units/divisor, scale, units%divisor)
}

// numeric is a query argument of units of 10^-scale.
func numeric(units, scale int) pgtype.Numeric {
	var n pgtype.Numeric
	if err := n.Scan(decimal(units, scale)); err != nil {
		return pgtype.Numeric{} // NULL, which every column refuses
	}
	return n
}

// copyInto fills a table from write, which runs beside the connection.
func copyInto(ctx context.Context, conn *pgx.Conn, target string, write func(*copyWriter)) error {
	reader, pipe := io.Pipe()
	finished := make(chan error, 1)
	go func() {
		c := &copyWriter{out: bufio.NewWriterSize(pipe, 1<<16)}
		write(c)
		err := errors.Join(c.err, c.out.Flush())
		finished <- errors.Join(err, pipe.CloseWithError(err))
	}()
	_, err := conn.PgConn().CopyFrom(ctx, reader, "COPY "+target+" FROM STDIN")
	err = errors.Join(err, reader.Close())
	if writeErr := <-finished; err == nil {
		err = writeErr
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", target, err)
	}
	return nil
}
