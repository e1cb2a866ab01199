package sinktest

import (
	"os"

	"icehose/sink"
)

// placeIndex draws how much memory the index of keys gets: enough, or next to
// none, so that it is on disk. Its folder outlives the process.
func (r *run) placeIndex(o *sink.Options) {
	luck := r.luckOf("index")
	if luck.IntN(2) == 0 {
		return
	}
	if r.indexDir == "" {
		var err error
		if r.indexDir, err = os.MkdirTemp("", "icehose-chaos-index-*"); err != nil {
			return // Open says why, if it needs one
		}
	}
	o.IndexMemory, o.IndexDir = 1, r.indexDir
}

// sawIndex counts where the index of a sink that has opened came from.
func (s *session) sawIndex() {
	for _, t := range s.sink.Stats() {
		if t.Table != chaosMirror || t.IndexDisk == 0 {
			continue
		}
		if s.scanned {
			s.counted(IndexRebuilt)
		} else {
			s.counted(IndexTakenOver)
		}
	}
}

// leaveIndex is what the end of a process does with the files of its index: most
// of the time nothing.
func (s *session) leaveIndex() error {
	if s.sink == nil {
		return nil
	}
	for _, t := range s.sink.Stats() {
		if t.IndexDisk > 0 {
			s.counted(IndexSpilled)
		}
	}
	if s.luckOf("index").IntN(3) == 0 {
		return s.sink.Abandon()
	}
	return nil
}

// removeIndex removes the folder of the index. What a process that is gone was
// still writing may be left.
func (r *run) removeIndex() {
	if r.indexDir != "" {
		_ = os.RemoveAll(r.indexDir)
	}
}
