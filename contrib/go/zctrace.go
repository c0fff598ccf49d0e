// Package zctrace runs a command under the program zctrace and reads the report of its system calls.
//
//	func TestCopyIsLeftToTheKernel(t *testing.T) {
//		report := zctrace.Trace(t, "cp", "in", "out")
//		if calls := report.Calls(t, "write"); calls != 0 {
//			t.Errorf("%d writes", calls)
//		}
//	}
//
// A part of a test is traced with all threads of its process and all that it starts:
//
//	stop := zctrace.Start(t)
//	copyFile("in", "out")
//	report := stop()
package zctrace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// ErrNotCounted says that a call has no row, because it was not selected. That is not 0.
var ErrNotCounted = errors.New("was not counted: select it with -e")

// Report is what a command and all its descendants did: the fields of `zctrace --format json` that
// most tests need. Raw has all of them; docs/json.md describes each.
type Report struct {
	// Exact says whether every count is exact. If not, Losses says what was lost.
	Exact  bool
	Losses map[string]uint64
	Exit   struct {
		// Code is the exit status, or Signal the number of the signal that ended the command.
		Code, Signal *int
	}
	Totals struct {
		Syscalls []Syscall
	}
	Transfers []Transfer
	// Counted is "all", or an object with the names of the calls that have rows.
	Counted json.RawMessage
	Raw     json.RawMessage `json:"-"`
}

// Syscall is a row: one call of one binary interface.
type Syscall struct {
	Name          string
	Calls, Errors uint64
	// Bytes that it moved; nil: it moves none, or that is unknown.
	Bytes *uint64
}

// Transfer says which bytes went from where to where, and by which interface.
type Transfer struct {
	From, To  struct{ Path *string }
	API       string
	Certainty string
	Bytes     *uint64
	Calls     *uint64
	Verdict   string
}

// Run runs a command under zctrace with these options of zctrace. Streams and the like are those of
// cmd, which must not have started. A command that fails is no error: see Report.Exit.
func Run(cmd *exec.Cmd, options ...string) (*Report, error) {
	folder, err := os.MkdirTemp("", "zctrace-go-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "report.json")
	args := append([]string{"--format", "json", "-o", file}, options...)
	traced := exec.Command(program(), append(append(args, "--"), cmd.Args...)...)
	traced.Stdin, traced.Stdout, traced.Dir, traced.Env = cmd.Stdin, cmd.Stdout, cmd.Dir, cmd.Env
	var said bytes.Buffer
	if traced.Stderr = cmd.Stderr; traced.Stderr == nil {
		traced.Stderr = &said
	}
	err = traced.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return nil, err
	}
	raw, unread := os.ReadFile(file)
	if unread != nil {
		return nil, fmt.Errorf("zctrace wrote no report: %s", bytes.TrimSpace(said.Bytes()))
	}
	report := &Report{Raw: raw}
	return report, json.Unmarshal(raw, report)
}

func program() string {
	if program := os.Getenv("ZCTRACE"); program != "" {
		return program
	}
	return "zctrace"
}

// Start traces this process, its threads and all that it starts, until stop is called, which gives the
// report. It takes eBPF; the test fails where that is missing. These are options of zctrace.
func Start(t testing.TB, options ...string) (stop func() *Report) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "span.json")
	inlet, lines, err := os.Pipe()
	answers, outlet, failed := os.Pipe()
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	args := []string{"-p", strconv.Itoa(os.Getpid()), "--control=fd:3,4", "--format=json", "-o", file}
	tracer := exec.Command(program(), append(args, options...)...)
	tracer.ExtraFiles, tracer.Stderr = []*os.File{inlet, outlet}, &said
	err = tracer.Start()
	inlet.Close()
	outlet.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tracer.Process.Signal(syscall.SIGINT)
		tracer.Wait()
		lines.Close()
		answers.Close()
	})
	heard := bufio.NewReader(answers)
	say := func(line string) {
		t.Helper()
		fmt.Fprintln(lines, line)
		answer, _ := heard.ReadString('\n')
		if answer == "" { // It has ended, and has said why.
			tracer.Wait()
			answer = said.String()
		}
		if answer != "ok\n" {
			t.Fatal(answer)
		}
	}
	say("start")
	return func() *Report {
		t.Helper()
		say("stop")
		report := &Report{}
		raw, err := os.ReadFile(file)
		if err = errors.Join(err, json.Unmarshal(raw, report)); err != nil {
			t.Fatal(err)
		}
		report.Raw = raw
		return report
	}
}

// Trace runs a command for a test. The test is skipped where nothing can be traced, and fails if the
// variable CI is set.
func Trace(t testing.TB, name string, args ...string) *Report {
	t.Helper()
	report, err := Run(exec.Command(name, args...))
	if err == nil {
		return report
	}
	_, unusable := Run(exec.Command("true"))
	if unusable != nil && os.Getenv("CI") == "" {
		t.Skipf("nothing can be traced: %v", unusable)
	}
	t.Fatal(err)
	return nil
}

// Syscall sums the rows of a call. A call that was counted and not made has zeroes; one that was not
// counted is ErrNotCounted.
func (r *Report) Syscall(name string) (Syscall, error) {
	sum, moved := Syscall{Name: name}, uint64(0)
	sum.Bytes = &moved
	found := false
	for _, row := range r.Totals.Syscalls {
		if row.Name == name {
			found = true
			sum.Calls += row.Calls
			sum.Errors += row.Errors
			if row.Bytes == nil {
				sum.Bytes = nil
			} else {
				moved += *row.Bytes
			}
		}
	}
	var counted struct{ Names []string }
	if found || json.Unmarshal(r.Counted, &counted) != nil {
		return sum, nil // All calls have rows.
	}
	for _, known := range counted.Names {
		if known == name {
			return sum, nil
		}
	}
	return sum, fmt.Errorf("%s %w", name, ErrNotCounted)
}

// Calls says how often a call returned; the test fails if it was not counted.
func (r *Report) Calls(t testing.TB, name string) uint64 {
	t.Helper()
	sum, err := r.Syscall(name)
	if err != nil {
		t.Fatal(err)
	}
	return sum.Calls
}
