//! What `zctrace --help` shows: one screen of 80x24. `zctrace run --help` has every option.

/// The text.
pub const FIRST_HELP: &str = "\
Show which system calls a command makes, how many bytes they move, their cost
Usage: zctrace [OPTIONS] [--] CMD...       all options: zctrace run --help
Options:
  -e, --syscalls SET   show these calls in detail: read,%network, all, '!futex'
  --by WHAT, --all     show each process, program or thread; show everything
  --files, --callers   show the calls on each file; show who made the calls
  -o FILE, --format F  write json, csv, markdown, ...; --html FILE writes a page
  -p PID, --cgroup C   attach to running processes, until Ctrl-C

Commands:
  run          run a command and report what it did (the default)
  top          show live what a command does
  compare      time commands, and explain why one is slower
  check        check that commands make the expected system calls
  diff         show what changed between two saved reports
  report       show a saved report, or make one from a log of strace
  doctor       show what works on this machine, and how to enable the rest
  schema       print the JSON Schema of reports
  completions  print the completion script of a shell
  man          print the manual page

Examples:
  zctrace cp big.iso /mnt/    zctrace check --expect 'write.calls == 0' -- CMD
";

#[cfg(test)]
mod tests {
    use super::FIRST_HELP;
    use crate::cli::Cli;

    #[test]
    fn the_first_help_fits_a_screen_and_names_every_command_and_only_options_that_there_are() {
        assert!(FIRST_HELP.lines().count() < 24);
        assert!(FIRST_HELP.lines().all(|line| line.len() <= 80));
        let cli = Cli::command();
        for command in cli.get_subcommands().filter(|one| !one.is_hide_set()) {
            let line = format!("\n  {} ", command.get_name());
            assert!(FIRST_HELP.contains(&line), "{line}");
        }
        let options: Vec<&str> = cli
            .get_arguments()
            .filter_map(|one| one.get_long())
            .collect();
        let head = FIRST_HELP.split("Commands:").next().unwrap_or_default();
        let words = head.split([' ', '\n', ',', ';']);
        for named in words.filter_map(|word| word.strip_prefix("--")) {
            let is_known = ["", "help"].contains(&named) || options.contains(&named);
            assert!(is_known || named == "]", "--{named}");
        }
    }
}
