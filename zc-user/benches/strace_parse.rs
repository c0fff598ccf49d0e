//! Speed and memory of the parser of strace logs. Its memory must not depend on the length of a
//! log.
//!
//! The goal is 1.5 million lines per second on one core, for typical lines of `strace -f -T -yy`.

use std::io::{self, BufRead, Read};

use divan::{AllocProfiler, Bencher, black_box, counter::ItemsCount};
use zctrace::{
    backend::{
        Until,
        strace::{Collector, Log, line::Line, read_log},
    },
    syscall::Selection,
};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// Typical lines of a server that copies with two threads; half of the calls are interrupted by the
/// other thread.
const LINES: &str = r#"4711  read(7</srv/data/file-0001.bin>, "\211PNG\r\n\32\n\0\0\0\rIHDR\0\0\2\0\0\0\2\0\10\6\0\0\0\364x"..., 131072) = 131072 <0.000031>
4711  sendto(9<TCP:[127.0.0.1:8080->127.0.0.1:41234]>, "\211PNG\r\n\32\n\0\0\0\rIHDR\0\0\2\0\0\0\2\0\10\6\0\0\0\364x"..., 131072, MSG_NOSIGNAL, NULL, 0) = 131072 <0.000054>
4712  recvfrom(11<UNIX-STREAM:[664600->664601]>,  <unfinished ...>
4711  splice(12<pipe:[664599]>, NULL, 9<TCP:[127.0.0.1:8080->127.0.0.1:41234]>, NULL, 65536, SPLICE_F_MOVE|SPLICE_F_MORE <unfinished ...>
4712  <... recvfrom resumed>"GET /index.html HTTP/1.1\r\nHost: l"..., 8192, 0, NULL, NULL) = 78 <0.000120>
4711  <... splice resumed>)             = 65536 <0.000042>
4712  writev(2</var/log/server.log>, [{iov_base="2026-11-21T07:24:11Z ", iov_len=21}, {iov_base="GET /index.html 200\n", iov_len=20}], 2) = 41 <0.000019>
4712  epoll_wait(5<anon_inode:[eventpoll]>, [{events=EPOLLIN, data={u32=11, u64=11}}], 1024, -1) = 1 <0.000310>
4711  read(7</srv/data/file-0001.bin>, 0x7f4257492000, 131072) = -1 EAGAIN (Resource temporarily unavailable) <0.000007>
4712  futex(0x7f4257492000, FUTEX_WAIT_PRIVATE, 2, NULL) = 0 <0.001020>
"#;

/// A log of any length that is never in memory as a whole.
struct Endless {
    position: usize,
    lines_left: usize,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let length = available.len().min(buffer.len());
        buffer[..length].copy_from_slice(&available[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Endless {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(if self.lines_left == 0 {
            b""
        } else {
            &LINES.as_bytes()[self.position..]
        })
    }

    fn consume(&mut self, length: usize) {
        let text = &LINES.as_bytes()[self.position..self.position + length];
        self.lines_left -= text
            .split_inclusive(|&byte| byte == b'\n')
            .filter(|line| line.ends_with(b"\n"))
            .count()
            .min(self.lines_left);
        self.position = (self.position + length) % LINES.len();
    }
}

/// From bytes to a trace. The column of the largest allocation must be the same for every length.
#[divan::bench(args = [10_000, 100_000, 1_000_000], sample_count = 10)]
fn log_to_trace(bencher: Bencher<'_, '_>, lines: usize) {
    bencher.counter(ItemsCount::new(lines)).bench(|| {
        let mut unparsed = |line: &str| panic!("cannot parse: {line}");
        let mut collector = Collector::new(&Selection::default(), Until::AllEnd, &mut unparsed);
        read_log(
            Log {
                reader: Endless {
                    position: 0,
                    lines_left: lines,
                },
                tid: None,
            },
            &mut collector,
        )
        .expect("memory can be read");
        collector.finish()
    });
}

/// The first layer alone: from a line to its parts.
#[divan::bench(sample_count = 100)]
fn line(bencher: Bencher<'_, '_>) {
    bencher
        .counter(ItemsCount::new(LINES.lines().count()))
        .bench(|| {
            for line in LINES.lines() {
                black_box(Line::parse(black_box(line.as_bytes())));
            }
        });
}
