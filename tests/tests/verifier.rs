//! What each eBPF program takes of what the kernel's verifier limits: stack and instructions. No timing, so a guard for every machine.
//!
//! Two tables are kept. `golden/verifier/object.md` is computed from the object alone; it changes with the programs and with the compiler.
//! `golden/verifier/kernels.md` has the verifier's own figures on each kernel. To write them anew:
//!
//! - the first, and this kernel's part of the second: `ZC_UPDATE_GOLDEN=1 cargo xtask test verifier`
//! - every kernel's part of the second: `cargo xtask vm --test verifier | cargo xtask stack --record`

mod loads;

use std::{
    collections::BTreeSet,
    env,
    fmt::Write as _,
    fs,
    io::{Write as _, stderr},
    path::PathBuf,
};

use nix::sys::utsname::uname;
use zc_ebpf::programs::UNDISTURBED;
use zc_tests::bpf::{Function, LIMIT_BYTES, LOOK_UP, LOOP, Object, Row, Rows, deepest_chain, deepest_chain_with};
use zctrace::backend::ebpf::embedded_object;

use crate::harness::zctrace;

/// By how much the verifier may have more to do than the table says, in percent: kernels of one series differ a little.
const TOLERANCE: u32 = 10;

fn object() -> Object {
    Object::parse(embedded_object()).expect("our own object")
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/verifier").join(name)
}

fn is_update() -> bool {
    env::var_os("ZC_UPDATE_GOLDEN").is_some()
}

/// The table of what follows from the object alone.
fn table(object: &Object, compiler: &str) -> String {
    let mut table = format!(
        "# The eBPF programs, as compiled\n\n\
         Computed from the object, compiled by {compiler}. Stack is that of the deepest chain of calls, by the rule of Linux 6.1, of which\n\
         {LIMIT_BYTES} bytes may be taken. Calls of helpers, and look-ups in maps among them, are those in the code, not those on one path\n\
         through it. `ZC_UPDATE_GOLDEN=1 cargo xtask test verifier` writes this anew.\n\n\
         | program | stack bytes | functions | instructions | helper calls | look-ups | deepest chain |\n\
         |---|--:|--:|--:|--:|--:|---|\n"
    );
    for program in object.programs() {
        let chain = deepest_chain(object, program);
        let parts = object.parts(program);
        let functions = || parts.iter().map(|&part| &object.functions[part]);
        let helpers = || functions().flat_map(|function| &function.helpers);
        let names: Vec<&str> = chain.functions.iter().map(|&function| object.functions[function].name.as_str()).collect();
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {} | {} | {} |",
            object.functions[program].name,
            chain.bytes,
            parts.len(),
            functions().map(|function| function.instructions).sum::<usize>(),
            helpers().count(),
            helpers().filter(|&&helper| helper == LOOK_UP).count(),
            names.join(" > ")
        );
    }
    table
}

/// What a frame was when the verifier checked it, of which it says this many bytes in the end: in between it puts the loop of `bpf_loop` in
/// place of the call, for which it saves three registers (`optimize_bpf_loop` of the kernel's `kernel/bpf/verifier.c`).
fn checked_frame(function: &Function, said_bytes: u32) -> u32 {
    let is_inlined = function.helpers.contains(&LOOP) && said_bytes > function.stack_bytes.next_multiple_of(8);
    if is_inlined { said_bytes.saturating_sub(3 * 8) } else { said_bytes }
}

#[test]
fn no_program_takes_more_stack_than_the_strictest_kernel_allows_with_room_to_spare() {
    let object = object();
    let above: Vec<_> = object
        .programs()
        .into_iter()
        .map(|program| (&object.functions[program].name, deepest_chain(&object, program).bytes))
        .filter(|(_, bytes)| *bytes > LIMIT_BYTES)
        .collect();
    assert!(above.is_empty(), "more than {LIMIT_BYTES} bytes of stack (`cargo xtask stack` shows the calls): {above:?}");
}

#[test]
fn the_programs_are_as_large_as_the_table_says() {
    let compiler = Object::compiler(embedded_object()).expect("the object names its compiler");
    let compiler = format!("{compiler} for {}", env::consts::ARCH);
    let found = table(&object(), &compiler);
    let path = golden("object.md");
    if is_update() {
        return fs::write(&path, found).expect("the table can be written");
    }
    let expected = fs::read_to_string(&path).expect("there is a table");
    if !expected.contains(&compiler) {
        // Another compiler makes other code, and so does one for another architecture.
        writeln!(stderr(), "the table of {} is by another compiler than {compiler}: not compared", path.display())
            .expect("stderr");
        return;
    }
    assert!(expected == found, "ZC_UPDATE_GOLDEN=1 accepts what is found now:\n--- expected\n{expected}\n--- found\n{found}");
}

#[test]
fn the_verifier_of_this_kernel_finds_what_the_table_says() {
    let object = object();
    let system = uname().expect("a name");
    let release = system.release().to_string_lossy().into_owned();
    let series: Vec<&str> = release.split('.').take(2).collect();
    let kernel = format!("{} {}", series.join("."), system.machine().to_string_lossy());
    let words = zctrace().ebpf().option("--output=/dev/null").syscalls("all").launch_of(&crate::harness::program("true"));
    let loads = loads::of(words.command());
    let (mut found, mut unloaded) = (Rows::default(), BTreeSet::new());
    for program in object.programs() {
        let parts = object.parts(program);
        let instructions: usize = parts.iter().map(|&part| object.functions[part].instructions).sum();
        let name = &object.functions[program].name;
        let Some(load) = loads.iter().find(|load| load.is_of(name, instructions)) else {
            unloaded.insert(name.as_str());
            continue;
        };
        let figures = load.figures().unwrap_or_else(|| panic!("no figures in what the verifier says of {name}: {load:?}"));
        assert_eq!(figures.frames.len(), parts.len(), "functions of {name}: {load:?}");
        let frame = |function| {
            let at = parts.iter().position(|&part| part == function).expect("a part of it");
            checked_frame(&object.functions[function], figures.frames[at])
        };
        let stack_bytes = deepest_chain_with(&object, program, &frame).bytes;
        assert!(stack_bytes <= LIMIT_BYTES, "the verifier finds {stack_bytes} bytes of stack in {name}: {load:?}");
        found.insert(&kernel, name, Row { stack_bytes, processed: figures.processed });
    }
    // What only closures need is not loaded here, and of two programs that do the same, one.
    let (replaced, substitutes): (Vec<_>, Vec<_>) =
        UNDISTURBED.map(|(replaced, substitute, _)| (replaced, substitute)).into_iter().unzip();
    let without = |other: Vec<&'static str>| other.into_iter().chain(["scope"]).collect::<BTreeSet<_>>();
    assert!(unloaded == without(replaced) || unloaded == without(substitutes), "not loaded: {unloaded:?} of {loads:?}");
    // libtest keeps back what goes through println.
    stderr().write_all(found.lines().as_bytes()).expect("stderr");
    let path = golden("kernels.md");
    let mut table = Rows::parse(&fs::read_to_string(&path).unwrap_or_default());
    if is_update() {
        table.record(found);
        return fs::write(&path, table.to_string()).expect("the table can be written");
    }
    let grown = table.grown(&found, TOLERANCE);
    assert!(grown.is_empty(), "more than the table says; ZC_UPDATE_GOLDEN=1 accepts it:\n{}", grown.join("\n"));
}
