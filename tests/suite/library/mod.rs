//! The library as its users' tests call it: in this process, where cargo runs many tests in threads
//! at once.

mod again;
mod bystanders;
mod closure;
mod command;
mod testing;
