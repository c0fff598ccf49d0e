package zctrace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCallsBytesAndTransfersOfACopy(t *testing.T) {
	folder := t.TempDir()
	source, copied := filepath.Join(folder, "in"), filepath.Join(folder, "out")
	if err := os.WriteFile(source, make([]byte, 100_000), 0o644); err != nil {
		t.Fatal(err)
	}
	report := Trace(t, exec.Command("dd", "if="+source, "of="+copied, "bs=1000", "status=none"))
	write := report.Syscall(t, "write")
	if write.Calls != 100 || write.Bytes == nil || *write.Bytes != 100_000 {
		t.Errorf("write: %+v", write)
	}
	if !report.Exact || report.Exit.Code == nil || *report.Exit.Code != 0 {
		t.Errorf("exact %v, exit %+v", report.Exact, report.Exit)
	}
	for _, transfer := range report.Transfers {
		if transfer.To.Path != nil && *transfer.To.Path == copied && *transfer.Bytes == 100_000 {
			return
		}
	}
	t.Errorf("no transfer to %s in %+v", copied, report.Transfers)
}

func TestAPartOfATestHasItsOwnCalls(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stop := Start(t, "-e", "pwrite64")
	for offset := int64(0); offset < 100; offset++ {
		if _, err := file.WriteAt([]byte("x"), offset); err != nil {
			t.Fatal(err)
		}
	}
	if calls := stop().Syscall(t, "pwrite64").Calls; calls != 100 {
		t.Errorf("%d calls", calls)
	}
}

// failing is a test that only notes that it failed.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatal(why ...any) {
	f.said = fmt.Sprint(why...)
	panic(f)
}

func (f *failing) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

func (f *failing) Skipf(format string, args ...any) {
	f.Fatal("skipped: " + fmt.Sprintf(format, args...))
}

// saidBy is what a test says that fails.
func saidBy(t *testing.T, test func(testing.TB)) (said string) {
	asked := &failing{TB: t}
	defer func() {
		recover()
		said = asked.said
	}()
	test(asked)
	return
}

func TestACallThatWasNotCountedFailsAndIsNot0(t *testing.T) {
	report := Trace(t, exec.Command("true"), "-e", "write")
	if report.Syscall(t, "write").Calls != 0 {
		t.Error("true writes nothing")
	}
	said := saidBy(t, func(t testing.TB) { report.Syscall(t, "read") })
	if !strings.HasPrefix(said, "read was not counted") {
		t.Errorf("%q", said)
	}
}

func TestACommandThatIsNotThereSaysSo(t *testing.T) {
	said := saidBy(t, func(t testing.TB) { Trace(t, exec.Command("/no/such")) })
	if !strings.HasPrefix(said, "zctrace: cannot run '/no/such'") || strings.Contains(said, "\n") {
		t.Errorf("one error, in one line: %q", said)
	}
}

func TestAFailedCommandHasItsStatus(t *testing.T) {
	report := Trace(t, exec.Command("sh", "-c", "exit 3"))
	if report.Exit.Code == nil || *report.Exit.Code != 3 {
		t.Errorf("%+v", report.Exit)
	}
}

func TestWithoutEBPFAPartOfATestIsSkippedAndFailsInCI(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "zctrace")
	script := "#!/bin/sh\ncase \"$*\" in *ebpf* | *control*) echo no eBPF >&2; exit 125 ;; esac\n"
	if err := os.WriteFile(fake, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ZCTRACE", fake)
	for ci, beginning := range map[string]string{"": "skipped: nothing can be traced", "true": "no eBPF"} {
		t.Setenv("CI", ci)
		said := saidBy(t, func(t testing.TB) { Start(t) })
		if !strings.HasPrefix(strings.TrimSpace(said), beginning) {
			t.Errorf("CI=%q: %q", ci, said)
		}
	}
}

func TestExpectationsHoldOrFailWithWhatWasFound(t *testing.T) {
	folder := t.TempDir()
	shell := func(script string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = folder
		return cmd
	}
	Check(t, shell("echo x >f && sync f && sync ."), `durable("f")`, `syncs("f").count == 1`)
	said := saidBy(t, func(t testing.TB) { Check(t, shell("echo y >f"), `durable("f")`) })
	if !strings.Contains(said, "f: not synced: it was not synced after write") {
		t.Error(said)
	}
}
