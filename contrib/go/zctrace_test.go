package zctrace

import (
	"errors"
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
	report := Trace(t, "dd", "if="+source, "of="+copied, "bs=1000", "status=none")
	write, err := report.Syscall("write")
	if err != nil || write.Calls != 100 || write.Bytes == nil || *write.Bytes != 100_000 {
		t.Errorf("write: %+v, %v", write, err)
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
	if calls := stop().Calls(t, "pwrite64"); calls != 100 {
		t.Errorf("%d calls", calls)
	}
}

func TestACallThatWasNotCountedIsAnErrorAndNot0(t *testing.T) {
	report, err := Run(exec.Command("true"), "-e", "write")
	if err != nil {
		t.Fatal(err)
	}
	if report.Calls(t, "write") != 0 {
		t.Error("true writes nothing")
	}
	if _, err := report.Syscall("read"); !errors.Is(err, ErrNotCounted) {
		t.Errorf("%v", err)
	}
}

func TestACommandThatIsNotThereSaysSo(t *testing.T) {
	if _, err := Run(exec.Command("/no/such")); err == nil || !strings.Contains(err.Error(), "/no/such") {
		t.Errorf("%v", err)
	}
}

func TestAFailedCommandHasItsStatus(t *testing.T) {
	report := Trace(t, "sh", "-c", "exit 3")
	if report.Exit.Code == nil || *report.Exit.Code != 3 {
		t.Errorf("%+v", report.Exit)
	}
}
