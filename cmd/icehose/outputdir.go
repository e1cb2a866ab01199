package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"icehose/catalog/artifact"
)

// An outputDir is a directory that a command writes generated files into, and
// nothing else is in.
type outputDir string

// manifestFile lists what an earlier run wrote, as relative paths.
const manifestFile = "manifest.json"

// compare finds what write would change.
func (dir outputDir) compare(files []artifact.File, before []string, result *generateResult) {
	needed := make(map[string]bool)
	for _, f := range files {
		needed[f.Path] = true
		if have, err := os.ReadFile(filepath.Join(string(dir), filepath.FromSlash(f.Path))); err != nil || !bytes.Equal(have, f.Data) {
			result.Written = append(result.Written, f.Path)
		}
	}
	for _, old := range before {
		if !needed[old] {
			result.Removed = append(result.Removed, old)
		}
	}
}

// manifest returns the files that an earlier run wrote into the directory. One
// with other things in it is not touched.
func (dir outputDir) manifest() ([]string, error) {
	entries, err := os.ReadDir(string(dir))
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read output directory: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(string(dir), manifestFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read output directory: %s is not empty and has no %s of an earlier run: choose another --out", dir, manifestFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read output directory: %w", err)
	}
	var files []string
	if err := json.Unmarshal(text, &files); err != nil {
		return nil, fmt.Errorf("read output directory: %s is damaged: %w", filepath.Join(string(dir), manifestFile), err)
	}
	for _, f := range files {
		if !filepath.IsLocal(filepath.FromSlash(f)) {
			return nil, fmt.Errorf("read output directory: %s names %q, which is outside of it", filepath.Join(string(dir), manifestFile), f)
		}
	}
	return files, nil
}

// write brings the directory up to date. The manifest lists both generations
// while files change, so that a killed run leaves nothing that the next one
// does not know.
func (dir outputDir) write(files []artifact.File, before []string, result *generateResult) error {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Path
	}
	both := append(slices.Clone(before), names...)
	slices.Sort(both)
	if err := dir.writeManifest(slices.Compact(both)); err != nil {
		return err
	}
	for _, f := range files {
		changed, err := writeIfChanged(filepath.Join(string(dir), filepath.FromSlash(f.Path)), f.Data)
		if err != nil {
			return err
		}
		if changed {
			result.Written = append(result.Written, f.Path)
		}
	}
	for _, old := range before {
		if slices.Contains(names, old) {
			continue
		}
		if err := os.Remove(filepath.Join(string(dir), filepath.FromSlash(old))); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove artifact: %w", err)
		}
		result.Removed = append(result.Removed, old)
	}
	return dir.writeManifest(names)
}

func (dir outputDir) writeManifest(names []string) error {
	text, err := json.MarshalIndent(names, "", "  ")
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	_, err = writeIfChanged(filepath.Join(string(dir), manifestFile), append(text, '\n'))
	return err
}

// writeIfChanged writes a file in one step, unless it has this content.
func writeIfChanged(path string, data []byte) (changed bool, err error) {
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, data) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, fmt.Errorf("write artifact: %w", err)
	}
	if err := os.WriteFile(path+newSuffix, data, 0o644); err != nil {
		return false, fmt.Errorf("write artifact: %w", err)
	}
	if err := os.Rename(path+newSuffix, path); err != nil {
		return false, fmt.Errorf("write artifact: %w", err)
	}
	return true, nil
}

// read returns what an earlier run wrote.
func (dir outputDir) read(manifest []string) (map[string][]byte, error) {
	files := make(map[string][]byte, len(manifest))
	for _, name := range manifest {
		data, err := os.ReadFile(filepath.Join(string(dir), filepath.FromSlash(name)))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read artifact: %w", err)
		}
		files[name] = data
	}
	return files, nil
}
