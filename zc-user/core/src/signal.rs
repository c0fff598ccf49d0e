//! Names of signals, and the exit status that stands for each.
//!
//! Public for zctrace's own crates only.

use nix::sys::signal::Signal;

/// All names, in the order of their numbers.
pub fn names() -> impl Iterator<Item = &'static str> {
    Signal::iterator().map(Signal::as_str)
}

/// A signal's name. Real-time signals have none; they are named by number.
pub fn name(number: i32) -> String {
    Signal::try_from(number).map_or_else(
        |_| format!("signal {number}"),
        |signal| signal.as_str().to_owned(),
    )
}

/// The number of the signal with this name.
pub fn number(name: &str) -> Option<i32> {
    name.parse().ok().map(|signal: Signal| signal as i32)
}

/// The exit status that stands for the end by this signal, as in a shell: 128 plus its number.
pub fn exit_status(number: i32) -> u8 {
    128_u8.saturating_add(u8::try_from(number).unwrap_or(u8::MAX))
}

/// What the codes (`si_code`) of the signals of faults are called, and what they mean: `sigaction(2)` of the Linux manual.
const CODES: [(i32, u32, &str, &str); 17] = [
    (libc::SIGSEGV, 1, "SEGV_MAPERR", "nothing is mapped there"),
    (
        libc::SIGSEGV,
        2,
        "SEGV_ACCERR",
        "the mapping does not allow this access",
    ),
    (libc::SIGBUS, 1, "BUS_ADRALN", "the address is unaligned"),
    (
        libc::SIGBUS,
        2,
        "BUS_ADRERR",
        "there is no such page: the mapped file may be too short, or its filesystem full",
    ),
    (libc::SIGBUS, 3, "BUS_OBJERR", "an error of the hardware"),
    (libc::SIGBUS, 4, "BUS_MCEERR_AR", "the memory is broken"),
    (libc::SIGFPE, 1, "FPE_INTDIV", "an integer divided by zero"),
    (libc::SIGFPE, 2, "FPE_INTOVF", "an integer overflow"),
    (libc::SIGFPE, 3, "FPE_FLTDIV", "a float divided by zero"),
    (libc::SIGFPE, 4, "FPE_FLTOVF", "a float overflow"),
    (libc::SIGFPE, 5, "FPE_FLTUND", "a float underflow"),
    (libc::SIGFPE, 7, "FPE_FLTINV", "an invalid float operation"),
    (libc::SIGILL, 1, "ILL_ILLOPC", "an illegal opcode"),
    (libc::SIGILL, 2, "ILL_ILLOPN", "an illegal operand"),
    (libc::SIGILL, 4, "ILL_ILLTRP", "an illegal trap"),
    (libc::SIGILL, 5, "ILL_PRVOPC", "a privileged opcode"),
    (libc::SIGILL, 6, "ILL_PRVREG", "a privileged register"),
];

/// The name of a code of this signal, and what it means.
pub fn fault_code(signal: i32, code: u32) -> Option<(&'static str, &'static str)> {
    let mut codes = CODES.iter();
    let known = codes.find(|known| (known.0, known.1) == (signal, code))?;
    Some((known.2, known.3))
}

/// The number of the code of this signal that has this name.
pub fn fault_code_number(signal: i32, name: &str) -> Option<u32> {
    let mut codes = CODES.iter();
    let known = codes.find(|known| (known.0, known.2) == (signal, name))?;
    Some(known.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_without_a_name_is_named_by_its_number() {
        assert_eq!((name(9).as_str(), number("SIGKILL")), ("SIGKILL", Some(9)));
        assert_eq!([name(0), name(40)], ["signal 0", "signal 40"]);
        assert_eq!([number("SIGRTMIN"), number("signal 40")], [None, None]);
        assert_eq!([2, 9, 15].map(exit_status), [130, 137, 143]);
    }

    #[test]
    fn the_code_of_a_fault_has_a_name_and_a_number() {
        for (signal, number, name, meaning) in CODES {
            assert_eq!(fault_code_number(signal, name), Some(number));
            assert_eq!(fault_code(signal, number), Some((name, meaning)));
        }
        assert_eq!(fault_code_number(libc::SIGSEGV, "SI_KERNEL"), None);
        assert_eq!(fault_code(libc::SIGFPE, 77), None);
    }
}
