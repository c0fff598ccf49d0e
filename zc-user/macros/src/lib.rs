//! The attribute `#[zctrace::test]`. It only puts the body of a test into a closure, so it needs no
//! parser of Rust.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// A test that is skipped where nothing can be traced, and fails there if the variable `CI` is set.
/// A skipped test says so on stderr, also where libtest captures output.
///
/// What it needs is eBPF, as `zctrace::trace` does. `#[zctrace::test(strace)]` is for tests that
/// only trace commands: strace suffices for them.
///
/// The function returns nothing, or a `Result<(), E>`. Other attributes, such as `#[ignore]` and
/// `#[should_panic]`, stand below this one.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let needs = match arguments.to_string().as_str() {
        "" => "Ebpf",
        "strace" => "Strace",
        other => return error(&format!("`{other}`: `strace` is all that can be said here")),
    };
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    let words: Vec<String> = tokens.iter().map(ToString::to_string).collect();
    let function = words.iter().position(|word| word == "fn");
    let (Some(function), Some(TokenTree::Group(body))) = (function, tokens.pop()) else {
        return error("`#[zctrace::test]` stands above a function");
    };
    if words[..function].iter().any(|word| word == "async") {
        return error("an async test: trace within `block_on`, or use `zctrace::testing::run`");
    }
    let name = words.get(function + 1).map_or("", String::as_str);
    let output = words.iter().skip_while(|word| *word != "-").skip(2);
    // The closure's type is that of the test, so that `?` works in it.
    let output: Vec<&str> = output.map(String::as_str).collect();
    let output = output
        .split_last()
        .map_or(String::new(), |(_, words)| words.join(" "));
    let output = if output.is_empty() { "()" } else { &output };
    let wrapped = format!(
        "::zctrace::testing::run({name:?}, ::zctrace::testing::Needs::{needs}, || -> {output} {body})"
    );
    let Ok(wrapped) = wrapped.parse() else {
        return error("the body of the test cannot be put into a closure");
    };
    tokens.push(Group::new(Delimiter::Brace, wrapped).into());
    let mut test: TokenStream = "#[::core::prelude::v1::test]".parse().unwrap_or_default();
    test.extend(tokens);
    test
}

fn error(message: &str) -> TokenStream {
    let error = format!("::core::compile_error!({message:?});");
    error.parse().unwrap_or_default()
}
