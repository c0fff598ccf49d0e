//! Bytes that agree in their number and have nothing to do with each other: no transfer is made up of them.

use zctrace::report::Api;

use crate::harness::{program, zctrace};

/// Threads feed and drain the sockets at the ends of the copy. What is drained came from what is fed, and not the other way round,
/// whichever thread happens to call first.
#[test]
fn what_is_drained_is_no_source() {
    let copies = program(env!("CARGO_BIN_EXE_kernel-copy")).args(&["socket-pipe-socket", "std-io-copy", "--copies", "20"]);
    for backend in ["ebpf", "strace"] {
        for _ in 0..10 {
            let run = zctrace().option(format!("--backend={backend}")).run(&copies);
            let found: Vec<_> = run.report.processes[0].transfers.iter().map(|transfer| (transfer.api, transfer.bytes)).collect();
            assert_eq!(found, [(Api::Splice, Some(20 * 128 * 1024))], "{backend}: {:#?}", run.report.processes[0].transfers);
        }
    }
}
