package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
)

// A python is a runner.py at work.
type python struct {
	interpreter, scripts string
	cmd                  *exec.Cmd
	in                   io.WriteCloser
	requests             *json.Encoder
	answers              *json.Decoder
}

// A pythonRequest is one line to runner.py.
type pythonRequest struct {
	Version   bool     `json:"version,omitempty"`
	Events    []string `json:"events,omitempty"`
	Responses []string `json:"responses,omitempty"`
	Times     int      `json:"times,omitempty"`
}

// A pythonAnswer is one line from it.
type pythonAnswer struct {
	Version     string `json:"version"`
	Nanoseconds int64  `json:"nanoseconds"`
}

func startPython(ctx context.Context, interpreter, scripts string, stderr io.Writer) (*python, error) {
	p := &python{interpreter: interpreter, scripts: scripts}
	p.cmd = exec.CommandContext(ctx, interpreter, filepath.Join(scripts, "runner.py"))
	p.cmd.Stderr = stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start python: %w", err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start python: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start python: %w", err)
	}
	p.in, p.requests, p.answers = in, json.NewEncoder(in), json.NewDecoder(out)
	return p, nil
}

// ask sends one request and waits for its answer.
func (p *python) ask(request pythonRequest) (answer pythonAnswer, err error) {
	if err := p.requests.Encode(request); err != nil {
		return answer, fmt.Errorf("ask python: %w", err)
	}
	if err := p.answers.Decode(&answer); err != nil {
		return answer, fmt.Errorf("ask python: %w", err)
	}
	return answer, nil
}

func (p *python) version() (string, error) {
	answer, err := p.ask(pythonRequest{Version: true})
	return answer.Version, err
}

// stop ends the interpreter, which ends with its input.
func (p *python) stop() error {
	return errors.Join(p.in.Close(), p.cmd.Wait())
}
