//! What cannot work: one clear line that says what helps, the right exit status, and nothing left behind.

mod command;
mod command_line;
mod kernel;
mod output_file;
mod privileges;
