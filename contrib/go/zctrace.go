// Package zctrace traces a command, or a part of a test, by the program zctrace, and reads the report
// of its system calls.
//
//	report := zctrace.Trace(t, exec.Command("cp", "in", "out"))
//	if write := report.Syscall(t, "write"); write.Calls != 0 {
//		t.Errorf("%d writes", write.Calls)
//	}
//
// A test is skipped where nothing can be traced, but it fails where CI is set. ZCTRACE names the program
// if it is not on the PATH. Options are those of zctrace.
package zctrace

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Report is what a command and all its descendants did: the fields of `zctrace --format json` that
// most tests need. Raw has all of them; docs/json.md describes each.
type Report struct {
	Exact  bool // Whether every count is exact. If not, Losses says what was lost.
	Losses map[string]uint64
	Exit   struct{ Code, Signal *int } // The signal is the one that ended the command.
	Totals struct{ Syscalls []Syscall }
	// Transfers say which bytes went from where to where, and by which interface.
	Transfers []struct {
		From, To struct{ Path *string }
		API      string
		Bytes    *uint64
	}
	Counted json.RawMessage // "all", or an object with the names of the calls that have rows.
	Raw     json.RawMessage `json:"-"`
}

// Syscall is a row: one call of one binary interface.
type Syscall struct {
	Name          string
	Calls, Errors uint64
	Bytes         *uint64 // That it moved; nil: it moves none, or that is unknown.
}

// Trace runs a command, which may fail: see Report.Exit.
func Trace(t testing.TB, cmd *exec.Cmd, options ...string) *Report {
	t.Helper()
	file, said := filepath.Join(t.TempDir(), "report.json"), bytes.Buffer{}
	traced := command(slices.Concat([]string{"--format=json", "-o", file}, options, []string{"--"}, cmd.Args)...)
	cmd.Path, cmd.Args, cmd.Err = traced.Path, traced.Args, traced.Err
	if cmd.Stderr == nil {
		cmd.Stderr = &said
	}
	// The report is there only if it is complete, and says how the command ended.
	return read(t, "auto", file, cmd.Run(), &said)
}

// Check runs a command, and fails the test unless these expectations hold: `durable("data/**")`.
func Check(t testing.TB, cmd *exec.Cmd, expectations ...string) {
	t.Helper()
	args := []string{"check"}
	for _, expectation := range expectations {
		args = append(args, "--expect="+expectation)
	}
	traced := command(slices.Concat(args, []string{"--"}, cmd.Args)...)
	cmd.Path, cmd.Args, cmd.Err = traced.Path, traced.Args, traced.Err
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(cmp.Or(strings.TrimSpace(string(said)), err.Error()))
	}
}

// Start traces this process, its threads and all that it starts, until stop is called. It needs eBPF.
func Start(t testing.TB, options ...string) (stop func() *Report) {
	t.Helper()
	file, said := filepath.Join(t.TempDir(), "span.json"), bytes.Buffer{}
	inlet, lines, err := os.Pipe()
	answers, outlet, failed := os.Pipe()
	args := []string{"-p", strconv.Itoa(os.Getpid()), "--control=fd:3,4", "--format=json", "-o", file}
	tracer := command(append(args, options...)...)
	tracer.ExtraFiles, tracer.Stderr = []*os.File{inlet, outlet}, &said
	if err = errors.Join(err, failed, tracer.Start()); err != nil {
		giveUp(t, "ebpf", &said, err)
	}
	inlet.Close()
	outlet.Close()
	t.Cleanup(func() {
		tracer.Process.Signal(syscall.SIGINT)
		tracer.Wait()
	})
	heard := bufio.NewReader(answers)
	say := func(line string) {
		t.Helper()
		lines.WriteString(line)
		answer, err := heard.ReadString('\n')
		if err != nil {
			tracer.Wait() // It has said why.
		}
		if answer != "ok\n" {
			giveUp(t, "ebpf", &said, errors.New(strings.TrimSpace(answer)))
		}
	}
	say("start\n")
	return func() *Report {
		t.Helper()
		say("stop\n")
		return read(t, "ebpf", file, nil, &said)
	}
}

func command(args ...string) *exec.Cmd {
	return exec.Command(cmp.Or(os.Getenv("ZCTRACE"), "zctrace"), args...)
}

// giveUp ends the test: there is no report. It is skipped if this backend can trace nothing. The test
// shows one error: what zctrace said, or else why it said nothing.
func giveUp(t testing.TB, backend string, said *bytes.Buffer, err error) {
	t.Helper()
	trial, failed := command("--backend", backend, "-o", "/dev/null", "--", "true").CombinedOutput()
	if failed != nil && os.Getenv("CI") == "" {
		t.Skipf("nothing can be traced: %s", cmp.Or(strings.TrimSpace(string(trial)), failed.Error()))
	}
	t.Fatal(cmp.Or(strings.TrimSpace(said.String()), err.Error()))
}

// read reads a report. If it is not there, ended says how zctrace did.
func read(t testing.TB, backend, file string, ended error, said *bytes.Buffer) *Report {
	t.Helper()
	raw, err := os.ReadFile(file)
	report := &Report{Raw: raw}
	if err == nil {
		err = json.Unmarshal(raw, report)
	}
	if err != nil {
		giveUp(t, backend, said, cmp.Or(ended, err))
	}
	return report
}

// Syscall sums the rows of a call. A call that was counted and not made has zeroes; the test fails if
// it was not counted, since that is not 0.
func (r *Report) Syscall(t testing.TB, name string) Syscall {
	t.Helper()
	sum := Syscall{Name: name, Bytes: new(uint64)}
	var counted struct{ Names []string }
	isCounted := json.Unmarshal(r.Counted, &counted) != nil || slices.Contains(counted.Names, name)
	for _, row := range r.Totals.Syscalls {
		if row.Name == name {
			isCounted = true
			sum.Calls += row.Calls
			sum.Errors += row.Errors
			if row.Bytes == nil || sum.Bytes == nil {
				sum.Bytes = nil
			} else {
				*sum.Bytes += *row.Bytes
			}
		}
	}
	if !isCounted {
		t.Fatalf("%s was not counted: select it by the options -e %s", name, name)
	}
	return sum
}
