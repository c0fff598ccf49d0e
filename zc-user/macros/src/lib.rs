//! The attribute `#[zctrace::test]`. It only puts the body of a test into a closure, so it needs no
//! parser of Rust.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// A test that is skipped where nothing can be traced, and fails there if the variable `CI` is set.
/// A skipped test says so on stderr, also where libtest captures output.
///
/// Where eBPF cannot run, strace traces commands, and a test that traces a closure is skipped.
/// `#[zctrace::test(ebpf)]` is for tests that ask for what strace does not know.
///
/// The function returns nothing, or a `Result<(), E>`. Other attributes, such as `#[ignore]`, stand
/// below this one. `#[should_panic]` needs `expected`, so that a failure in CI does not satisfy it; such a
/// test fails where nothing can be traced, because a skipped one does not panic.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let needs = match arguments.to_string().as_str() {
        "" => "Either",
        "ebpf" => "Ebpf",
        other => {
            return error(&format!(
                "`{other}` is not an option here; the only one is `ebpf`"
            ));
        }
    };
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    let words: Vec<String> = tokens.iter().map(ToString::to_string).collect();
    let function = words.iter().position(|word| word == "fn");
    let (Some(function), Some(TokenTree::Group(body))) = (function, tokens.pop()) else {
        return error("`#[zctrace::test]` goes above a function");
    };
    if words[..function].iter().any(|word| word == "async") {
        return error("an async test: trace within `block_on`, or use `zctrace::testing::run`");
    }
    let is_vague = |word: &String| word.starts_with("[should_panic") && !word.contains("expected");
    if words[..function].iter().any(is_vague) {
        return error("`#[should_panic]` without `expected` is satisfied if nothing can be traced");
    }
    let name = words.get(function + 1).map_or("", String::as_str);
    // After its name stand its parameters, and then an arrow of two tokens if it returns something.
    // The closure returns the same, so that `?` works in it.
    let output = tokens.get(function + 5..).unwrap_or_default();
    let mut arguments = tokens_of(&format!(
        "{name:?}, ::zctrace::testing::Needs::{needs}, || ->"
    ));
    if output.is_empty() {
        arguments.extend(tokens_of("()"));
    }
    arguments.extend(output.iter().cloned());
    arguments.extend([TokenTree::from(body)]);
    let mut call = tokens_of("::zctrace::testing::run");
    call.extend([TokenTree::from(Group::new(
        Delimiter::Parenthesis,
        arguments,
    ))]);
    let mut test = tokens_of("#[::core::prelude::v1::test]");
    test.extend(tokens);
    test.extend([TokenTree::from(Group::new(Delimiter::Brace, call))]);
    test
}

fn tokens_of(text: &str) -> TokenStream {
    text.parse().unwrap_or_default()
}

fn error(message: &str) -> TokenStream {
    tokens_of(&format!("::core::compile_error!({message:?});"))
}
