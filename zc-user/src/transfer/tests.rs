//! The analysis as a whole, on made-up traces.

use super::*;
use crate::{
    report::{
        Api,
        sample::files::{Loop, Scene, copy, map, read, write, written_after, written_from},
    },
    trace::FileKind::{Eventfd, Regular, Tcp},
};

const MIB: u64 = 1 << 20;

/// What the analysis says of the only process: from, to, API and bytes of each transfer.
fn transfers(scene: &Scene) -> Vec<(String, String, Api, Option<u64>)> {
    let analysis = analyse(&scene.trace);
    assert_eq!(analysis.processes.len(), 1);
    analysis.processes[0].transfers.iter().map(short).collect()
}

fn short(transfer: &Transfer) -> (String, String, Api, Option<u64>) {
    let name = |end: &crate::report::End| end.path.clone().or_else(|| end.kind.clone()).unwrap_or_default();
    (name(&transfer.from), name(&transfer.to), transfer.api, transfer.bytes)
}

fn one(from: &str, to: &str, api: Api, bytes: u64) -> Vec<(String, String, Api, Option<u64>)> {
    vec![(from.into(), to.into(), api, Some(bytes))]
}

mod direct {
    use super::*;

    #[test]
    fn a_call_that_names_both_ends_is_a_transfer() {
        let apis =
            [("sendfile", Api::Sendfile), ("splice", Api::Splice), ("tee", Api::Tee), ("copy_file_range", Api::CopyFileRange)];
        for (name, api) in apis {
            let mut scene = Scene::new();
            let [from, to] = ["in", "out"].map(|name| scene.regular(name));
            scene.process("copier", vec![copy(name, from, to, 3, MIB).zero(1)]);
            assert_eq!(transfers(&scene), one("in", "out", api, MIB));
            let analysis = analyse(&scene.trace);
            let transfer = &analysis.processes[0].transfers[0];
            assert_eq!((transfer.calls, transfer.zero_calls, transfer.mean_bytes), (4, 1, Some(MIB / 3)));
            assert_eq!((transfer.crossings, transfer.user_memory_bytes), (4, Some(0)));
            assert_eq!(analysis.processes[0].unattributed, Unattributed::default());
        }
    }

    #[test]
    fn a_reflink_copies_an_unknown_number_of_bytes() {
        let mut scene = Scene::new();
        let [from, to] = ["in", "out"].map(|name| scene.regular(name));
        scene.process("copier", vec![copy("ioctl(FICLONE)", from, to, 1, 0)]);
        assert_eq!(transfers(&scene), [("in".into(), "out".into(), Api::Reflink, None)]);
        let verdict = &analyse(&scene.trace).processes[0].transfers[0].verdict;
        assert_eq!(verdict, "reflink, 1 call that shared blocks instead of copying them");
    }

    #[test]
    fn what_failed_before_is_an_attempt() {
        let mut scene = Scene::new();
        let [from, to] = ["in", "out"].map(|name| scene.regular(name));
        let rows = vec![
            copy("copy_file_range", from, to, 0, 0).failed(libc::EXDEV, 2).at(2),
            copy("sendfile", from, to, 1, MIB).zero(1).at(3),
            copy("ioctl(FICLONE)", from, to, 0, 0).failed(libc::EOPNOTSUPP, 1).at(1),
        ];
        scene.process("copier", rows);
        let analysis = analyse(&scene.trace);
        let [transfer] = analysis.processes[0].transfers.as_slice() else { panic!("{analysis:?}") };
        assert_eq!((transfer.api, transfer.calls, transfer.crossings), (Api::Sendfile, 2, 5));
        assert_eq!(
            transfer.verdict,
            "sendfile, 1 call of 1 MiB, after ioctl(FICLONE) (EOPNOTSUPP), copy_file_range (EXDEV, 2 times): \
             copy_file_range does not work between these two filesystems"
        );
    }

    #[test]
    fn what_failed_after_is_no_attempt() {
        let mut scene = Scene::new();
        let [from, to] = ["in", "out"].map(|name| scene.regular(name));
        let failed = copy("copy_file_range", from, to, 0, 0).failed(libc::EXDEV, 1).at(9);
        scene.process("copier", vec![copy("sendfile", from, to, 1, MIB).at(3), failed]);
        assert!(analyse(&scene.trace).processes[0].transfers[0].attempts.is_empty());
    }

    #[test]
    fn a_call_that_moved_nothing_before_a_loop_did_is_an_attempt() {
        let mut scene = Scene::new();
        let [from, to] = ["cpuinfo", "out"].map(|name| scene.regular(name));
        let rows = vec![
            copy("copy_file_range", from, to, 0, 0).zero(1).at(1),
            read("read", from, 1, 2466).zero(1).at(2),
            written_after("write", from, to, 1, 2466, 2466).at(3),
        ];
        scene.process("copier", rows);
        let transfer = &analyse(&scene.trace).processes[0].transfers[0];
        assert!(
            transfer.verdict.starts_with("read + write, 1 call of 2.4 KiB, after copy_file_range (0 bytes): "),
            "{transfer:?}"
        );
    }

    #[test]
    fn an_empty_file_is_copied_by_the_call_that_found_it_empty() {
        let mut scene = Scene::new();
        let [from, to] = ["empty", "out"].map(|name| scene.regular(name));
        let rows = vec![
            copy("ioctl(FICLONE)", from, to, 0, 0).failed(libc::EOPNOTSUPP, 1).at(1),
            copy("copy_file_range", from, to, 0, 0).zero(1).at(2),
        ];
        scene.process("cp", rows);
        assert_eq!(transfers(&scene), one("empty", "out", Api::CopyFileRange, 0));
        let verdict = &analyse(&scene.trace).processes[0].transfers[0].verdict;
        let expected = "copy_file_range, 1 call that found nothing to copy, after ioctl(FICLONE) (EOPNOTSUPP)";
        assert!(verdict.starts_with(expected), "{verdict}");
    }

    #[test]
    fn a_copy_that_failed_says_so() {
        let mut scene = Scene::new();
        let [from, to] = ["in", "out"].map(|name| scene.regular(name));
        scene.process("cp", vec![copy("ioctl(FICLONE)", from, to, 0, 0).failed(libc::EOPNOTSUPP, 1)]);
        let verdict = &analyse(&scene.trace).processes[0].transfers[0].verdict;
        assert!(verdict.starts_with("reflink, 1 call failed (EOPNOTSUPP): the filesystem cannot share"), "{verdict}");
    }

    #[test]
    fn retries_are_waste_not_attempts() {
        let mut scene = Scene::new();
        let (from, to) = (scene.regular("in"), scene.file(Tcp, "sock"));
        scene.process("nginx", vec![copy("sendfile", from, to, 2, MIB).failed(libc::EAGAIN, 7)]);
        let transfer = &analyse(&scene.trace).processes[0].transfers[0];
        assert!(transfer.attempts.is_empty());
        assert_eq!(transfer.retries["EAGAIN"], 7);
        assert_eq!(transfer.verdict, "sendfile, 2 calls of 512 KiB, 7 calls made again (EAGAIN)");
    }
}

mod loops {
    use super::*;

    #[test]
    fn a_loop_that_balances_is_a_transfer() {
        let mut scene = Scene::new();
        let (from, to) = (scene.regular("in"), scene.file(Tcp, "sock"));
        let mut thread = Loop::default();
        for _ in 0..128 {
            thread.read(from, 8192);
            thread.write(to, 8192);
        }
        thread.read(from, 0);
        scene.process("copier", thread.rows());
        assert_eq!(transfers(&scene), one("in", "sock", Api::ReadWrite, MIB));
        let analysis = analyse(&scene.trace);
        let transfer = &analysis.processes[0].transfers[0];
        assert_eq!(transfer.verdict, "read + write, 128 calls of 8 KiB");
        assert_eq!((transfer.calls, transfer.crossings, transfer.user_memory_bytes), (257, 257, Some(2 * MIB)));
        assert_eq!((transfer.calls_by_syscall["read"], transfer.calls_by_syscall["write"]), (129, 128));
        assert_eq!(analysis.processes[0].unattributed, Unattributed::default());
    }

    #[test]
    fn a_message_after_the_loader_is_none() {
        for message in [6, 800, 900] {
            let mut scene = Scene::new();
            let (libc, stdout) = (scene.regular("libc.so.6"), scene.regular("tty"));
            let mut thread = Loop::default();
            thread.read(libc, 832);
            thread.write(stdout, message);
            scene.process("hello", thread.rows());
            let analysis = analyse(&scene.trace);
            assert!(analysis.processes[0].transfers.is_empty(), "{message}: {analysis:?}");
            let unattributed = &analysis.processes[0].unattributed;
            assert_eq!((unattributed.read[0].bytes, unattributed.written[0].bytes), (Some(832), Some(message)));
        }
    }

    #[test]
    fn a_search_is_none() {
        let mut scene = Scene::new();
        let (from, to) = (scene.regular("log"), scene.regular("found"));
        let mut thread = Loop::default();
        for _ in 0..64 {
            thread.read(from, 32768);
            thread.write(to, 900);
        }
        scene.process("grep", thread.rows());
        assert!(transfers(&scene).is_empty());
    }

    #[test]
    fn a_server_that_answers_is_none_but_an_echo_is() {
        for (answer, found) in [(5000, 0), (101, 0), (99, 0), (100, 1)] {
            let mut scene = Scene::new();
            let socket = scene.file(Tcp, "sock");
            let mut thread = Loop::default();
            for _ in 0..100 {
                thread.read(socket, 100);
                thread.write(socket, answer);
            }
            scene.process("server", thread.rows());
            assert_eq!(transfers(&scene).len(), found, "{answer}");
        }
    }

    #[test]
    fn a_server_with_headers_is_credited_with_what_it_read() {
        let mut scene = Scene::new();
        let (page, socket) = (scene.regular("page.html"), scene.file(Tcp, "sock"));
        let mut thread = Loop::default();
        for _ in 0..100 {
            thread.read(socket, 80);
            thread.read(page, 1000);
            thread.write(socket, 1200);
        }
        scene.process("server", thread.rows());
        assert_eq!(transfers(&scene), one("page.html", "sock", Api::ReadWrite, 100_000));
        let unattributed = &analyse(&scene.trace).processes[0].unattributed;
        assert_eq!((unattributed.read[0].bytes, unattributed.written[0].bytes), (Some(8000), Some(20_000)));
    }

    #[test]
    fn what_wakes_is_no_end() {
        let mut scene = Scene::new();
        let [first, second] = [scene.file(Eventfd, "a"), scene.file(Eventfd, "b")];
        let mut thread = Loop::default();
        for _ in 0..100 {
            thread.read(first, 8);
            thread.write(second, 8);
        }
        scene.process("tokio", thread.rows());
        assert!(transfers(&scene).is_empty());
    }

    #[test]
    fn threads_of_a_process_add_up() {
        let mut scene = Scene::new();
        let (from, to) = (scene.regular("in"), scene.regular("out"));
        let thread = || {
            let mut thread = Loop::default();
            for _ in 0..10 {
                thread.read(from, 4096);
                thread.write(to, 4096);
            }
            thread.rows()
        };
        scene.threads("copier", vec![thread(), thread()]);
        assert_eq!(transfers(&scene), one("in", "out", Api::ReadWrite, 20 * 4096));
    }

    #[test]
    fn writes_out_of_a_mapping_are_a_transfer_of_their_own_kind() {
        let mut scene = Scene::new();
        let (from, to) = (scene.regular("in"), scene.file(Tcp, "sock"));
        scene.process("copier", vec![map(from, MIB), written_from("sendto", from, to, 4, MIB)]);
        assert_eq!(transfers(&scene), one("in", "sock", Api::MmapWrite, MIB));
        let transfer = &analyse(&scene.trace).processes[0].transfers[0];
        assert_eq!((transfer.user_memory_bytes, transfer.calls), (Some(MIB), 5));
        assert_eq!(transfer.verdict, "mmap + write, 4 calls of 256 KiB");
    }

    #[test]
    fn constants_of_the_program_are_no_transfer() {
        let mut scene = Scene::new();
        let (program, library, data) = (scene.regular("hello"), scene.regular("libc.so.6"), scene.regular("messages"));
        let to = scene.regular("out");
        let rows = vec![
            written_from("write", program, to, 100, MIB),
            written_from("write", library, to, 100, MIB),
            written_from("write", data, to, 1, 23),
        ];
        scene.process("hello", rows);
        assert!(transfers(&scene).is_empty());
    }
}

mod pipes {
    use super::*;

    #[test]
    fn into_a_pipe_and_out_of_it_is_one_transfer() {
        let mut scene = Scene::new();
        let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.file(Tcp, "sock"));
        let rows = vec![copy("splice", from, pipe, 16, MIB).zero(1), copy("splice", pipe, to, 16, MIB)];
        scene.process("copier", rows);
        assert_eq!(transfers(&scene), one("in", "sock", Api::Splice, MIB));
        let transfer = &analyse(&scene.trace).processes[0].transfers[0];
        assert_eq!((transfer.calls, transfer.verdict.as_str()), (33, "splice, 16 calls of 64 KiB"));
    }

    #[test]
    fn what_stayed_in_the_pipe_is_unattributed() {
        let mut scene = Scene::new();
        let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
        scene.process("copier", vec![copy("splice", from, pipe, 2, 100), copy("splice", pipe, to, 1, 60)]);
        assert_eq!(transfers(&scene), one("in", "out", Api::Splice, 60));
        assert_eq!(analyse(&scene.trace).processes[0].unattributed.read[0].bytes, Some(40));
    }

    #[test]
    fn sources_that_took_turns_keep_their_destinations() {
        let mut scene = Scene::new();
        let pipe = scene.pipe();
        let rows = (0..3).flat_map(|index| {
            let (from, to) = (scene.regular(&format!("in{index}")), scene.regular(&format!("out{index}")));
            let bytes = (index + 1) * 1000;
            [copy("splice", from, pipe, 1, bytes).at(index * 2), copy("splice", pipe, to, 1, bytes).at(index * 2 + 1)]
        });
        let rows = rows.collect();
        scene.process("copier", rows);
        let found: Vec<_> = transfers(&scene).into_iter().map(|(from, to, _, bytes)| (from, to, bytes)).collect();
        let expected = [2, 1, 0].map(|index| (format!("in{index}"), format!("out{index}"), Some((index + 1) * 1000)));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_pipe_that_many_shared_is_the_end_of_its_transfers() {
        let mut scene = Scene::new();
        let pipe = scene.pipe();
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| scene.regular(name));
        let rows = vec![
            copy("splice", a, pipe, 1, 10).at(1),
            copy("splice", b, pipe, 1, 20).at(2),
            copy("splice", pipe, c, 1, 15).at(3),
            copy("splice", pipe, d, 1, 15).at(4),
        ];
        scene.process("copier", rows);
        assert_eq!(transfers(&scene).len(), 4);
    }

    #[test]
    fn lent_memory_comes_from_memory_or_the_file_that_it_maps() {
        let mut scene = Scene::new();
        let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
        let out = || copy("splice", pipe, to, 16, MIB);
        scene.process("copier", vec![map(from, MIB), written_from("vmsplice", from, pipe, 16, MIB), out()]);
        assert_eq!(transfers(&scene), one("in", "out", Api::Vmsplice, MIB));
        // A backend that sees no buffers: the mapping has as many bytes.
        scene.trace.processes[0].threads[0].rows = vec![map(from, MIB), write("vmsplice", pipe, 16, MIB), out()];
        assert_eq!(transfers(&scene), one("in", "out", Api::Vmsplice, MIB));
        scene.trace.processes[0].threads[0].rows = vec![write("vmsplice", pipe, 16, MIB), out()];
        assert_eq!(transfers(&scene), one("memory", "out", Api::Vmsplice, MIB));
    }

    #[test]
    fn a_failed_way_through_a_pipe_is_an_attempt() {
        let mut scene = Scene::new();
        let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
        let rows = vec![
            copy("splice", from, pipe, 0, 0).failed(libc::EINVAL, 1).at(1),
            read("read", from, 16, MIB).at(2),
            written_after("write", from, to, 16, MIB, MIB).at(3),
        ];
        scene.process("copier", rows);
        assert_eq!(transfers(&scene), one("in", "out", Api::ReadWrite, MIB));
        let verdict = &analyse(&scene.trace).processes[0].transfers[0].verdict;
        assert!(verdict.starts_with("read + write, 16 calls of 64 KiB, after splice (EINVAL): "), "{verdict}");
    }
}

mod totals {
    use super::*;

    #[test]
    fn a_loop_over_two_threads_is_known_by_its_bytes() {
        let mut scene = Scene::new();
        let (from, to) = (scene.regular("in"), scene.file(Tcp, "sock"));
        let reader = vec![read("read", from, 16, MIB).at(1)];
        scene.threads("tokio", vec![reader, vec![write("sendto", to, 40, MIB).at(2)]]);
        assert_eq!(transfers(&scene), one("in", "sock", Api::ReadWrite, MIB));
        assert_eq!(analyse(&scene.trace).processes[0].unattributed, Unattributed::default());
    }

    #[test]
    fn other_bytes_another_order_or_a_third_file_make_it_none() {
        let mut scene = Scene::new();
        let [from, other] = ["in", "other"].map(|name| scene.regular(name));
        let to = scene.regular("out");
        let cases = [
            vec![read("read", from, 16, MIB).at(1), write("write", to, 16, MIB - 1).at(2)],
            vec![read("read", from, 16, MIB).at(2), write("write", to, 16, MIB).at(1)],
            vec![read("read", from, 16, MIB).at(1), read("read", other, 16, MIB).at(2), write("write", to, 16, MIB).at(3)],
            vec![read("read", from, 1, 100).at(1), write("write", to, 1, 100).at(2)],
        ];
        for rows in cases {
            scene.trace.processes.clear();
            scene.process("copier", rows);
            assert!(transfers(&scene).is_empty(), "{:?}", scene.trace.processes);
        }
    }

    #[test]
    fn a_mapping_is_the_source_of_as_many_bytes() {
        let mut scene = Scene::new();
        let (from, to) = (scene.regular("in"), scene.regular("out"));
        scene.process("copier", vec![map(from, MIB).at(1), write("write", to, 1, MIB).at(2)]);
        assert_eq!(transfers(&scene), one("in", "out", Api::MmapWrite, MIB));
    }
}

mod across {
    use super::*;

    fn across(scene: &Scene) -> Vec<(String, String, Api, Option<u64>)> {
        analyse(&scene.trace).across.iter().map(short).collect()
    }

    fn cat(from: crate::trace::FileId, to: crate::trace::FileId) -> Vec<crate::trace::Row> {
        vec![read("read", from, 8, MIB).zero(1), written_after("write", from, to, 8, MIB, MIB)]
    }

    #[test]
    fn a_pipeline_is_one_transfer_over_its_processes() {
        let mut scene = Scene::new();
        let (from, first, second, to) = (scene.regular("in"), scene.pipe(), scene.pipe(), scene.regular("out"));
        scene.process("cat", cat(from, first));
        scene.process("tr", cat(first, second));
        scene.process("dd", cat(second, to));
        assert_eq!(across(&scene), one("in", "out", Api::ReadWrite, MIB));
        let transfer = &analyse(&scene.trace).across[0];
        assert_eq!(transfer.pids, [1234, 1235, 1236]);
        assert_eq!((transfer.calls, transfer.user_memory_bytes), (51, Some(6 * MIB)));
        assert_eq!(
            transfer.verdict,
            "through 3 processes: cat: read + write, 8 calls of 128 KiB; tr: read + write, 8 calls of 128 KiB; \
             dd: read + write, 8 calls of 128 KiB"
        );
    }

    #[test]
    fn a_connection_has_two_ends() {
        let mut scene = Scene::new();
        let (from, to) = (scene.regular("in"), scene.regular("out"));
        for [near, far] in [scene.socketpair(), scene.connection("127.0.0.1:5000", "127.0.0.1:80")] {
            scene.trace.processes.clear();
            scene.process("client", vec![copy("sendfile", from, near, 1, MIB)]);
            scene.process("server", cat(far, to));
            assert_eq!(across(&scene), one("in", "out", Api::ReadWrite, MIB));
        }
    }

    #[test]
    fn what_others_wrote_or_read_makes_it_none() {
        let mut scene = Scene::new();
        let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
        let others = [vec![write("write", pipe, 1, 5)], vec![read("read", pipe, 1, 5)], vec![read("recvmmsg", pipe, 1, 0)]];
        for rows in others {
            scene.trace.processes.clear();
            scene.process("cat", cat(from, pipe));
            scene.process("cat", cat(pipe, to));
            scene.process("other", rows);
            assert!(across(&scene).is_empty());
        }
    }
}

#[test]
fn of_unknown_files_nothing_is_said_but_their_bytes() {
    let mut trace = crate::report::sample::copier();
    trace.calls_without_files = 5;
    let analysis = analyse(&trace);
    assert!(analysis.processes[0].transfers.is_empty() && analysis.across.is_empty());
    let read = &analysis.processes[0].unattributed.read;
    assert_eq!((read.len(), &read[0].file, read[0].bytes), (1, &None, Some(1 << 30)));
}

#[test]
fn ends_are_described_by_their_files() {
    let mut scene = Scene::new();
    let (from, to) = (scene.file(Regular, "in"), scene.connection("[::1]:5000", "[::1]:80")[0]);
    scene.process("copier", vec![copy("sendfile", from, to, 1, MIB)]);
    let transfer = &analyse(&scene.trace).processes[0].transfers[0];
    assert_eq!((transfer.from.kind.as_deref(), transfer.from.fs.as_deref()), (Some("regular"), Some("ext4")));
    assert_eq!((transfer.to.local.as_deref(), transfer.to.peer.as_deref()), (Some("[::1]:5000"), Some("[::1]:80")));
}
