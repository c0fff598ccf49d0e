//! Parses a figure: its subject, its selectors and its name.

use super::{SyntaxError, Tokens, is_letter};
use crate::{
    errno,
    expect::{
        allow::{AddressPattern, AllowPattern},
        ast::{
            DESCRIPTORS, DURABLE, FigureExpr, FigureSubject, SYNCS, Selectors, SyncPoint, TOUCHES,
            TRANSFER, aggregate_names,
        },
        function::FunctionPattern,
        names::CallSet,
        pattern::{EndPattern, Glob, KindPattern},
    },
    figures::list::{FigureField, FigureGroup, FigureUnit, NamedField},
    syscalls::{self, Abi, Spec, meant_by},
    touched::TouchKind,
    words::{did_you_mean, nearest_name},
};

pub(super) fn parse_figure(tokens: &mut Tokens<'_>) -> Result<FigureExpr, SyntaxError> {
    let at = tokens.token_offset();
    let subject = parse_subject(tokens)?;
    let name = tokens.written_since(at);
    if subject.is_a_condition() {
        let field = match subject {
            FigureSubject::Touches(..) => FigureField::Outside,
            _ => FigureField::Unsynced,
        };
        return Ok(FigureExpr {
            text: name,
            at,
            subject,
            selectors: Selectors::default(),
            field,
            unit: FigureUnit::Count,
            errno: None,
        });
    }
    let selectors_at = tokens.token_offset();
    let selectors = parse_selectors(tokens)?;
    if !tokens.take_if(".") {
        let first = subject.figure_group().figures()[0].name;
        return Err(tokens.error_expecting(&format!("a figure of {name}, like {name}.{first},")));
    }
    let (subject, figure) = parse_field(tokens, &name, subject)?;
    let errno = if tokens.take_if(".") {
        Some(parse_errno(tokens, &name, figure)?)
    } else {
        None
    };
    if let Some(why) = why_not_selectable(&subject, &selectors, figure.field) {
        let why = format!("{name}.{} cannot be selected like this: {why}", figure.name);
        return Err(SyntaxError::at_offset(selectors_at, why));
    }
    Ok(FigureExpr {
        text: tokens.written_since(at),
        at,
        subject,
        selectors,
        field: figure.field,
        unit: figure.unit,
        errno,
    })
}

fn parse_subject(tokens: &mut Tokens<'_>) -> Result<FigureSubject, SyntaxError> {
    let (at, word) = (tokens.token_offset(), tokens.peek());
    if word.starts_with('%') {
        let names: Vec<String> = syscalls::class_names()
            .map(|name| format!("%{name}"))
            .collect();
        let class = tokens.take_name("class", &names)?;
        return Ok(FigureSubject::Calls(CallSet::of_class(&class[1..])));
    }
    if !word.starts_with(is_letter) {
        return Err(tokens.error_expecting("a figure, like write.calls or transfer(* -> *).api,"));
    }
    tokens.advance();
    if word == TRANSFER {
        tokens.take_required("(")?;
        let from = parse_end(tokens)?;
        tokens.take_required("->")?;
        let to = parse_end(tokens)?;
        tokens.take_required(")")?;
        return Ok(FigureSubject::Transfer(from, to));
    }
    if let SYNCS | DURABLE = word {
        tokens.take_required("(")?;
        let glob = parse_pattern(tokens, A_PATH, Glob::new)?;
        tokens.take_required(")")?;
        return Ok(if word == SYNCS {
            FigureSubject::Syncs(glob)
        } else {
            FigureSubject::Durable(glob, parse_sync_point(tokens)?)
        });
    }
    if word == TOUCHES {
        return parse_touches(tokens);
    }
    if word == DESCRIPTORS {
        return Ok(FigureSubject::Descriptors);
    }
    if word == "ioctl" && tokens.take_if("(") {
        // The variants of `ioctl` that are counted on their own.
        let command = tokens.take_name("counted ioctl", &["FICLONE", "FICLONERANGE"])?;
        tokens.take_required(")")?;
        return parse_call(&format!("ioctl({command})"), at);
    }
    match FigureSubject::aggregate_named(word) {
        Some(aggregate) => Ok(aggregate),
        None => parse_call(word, at),
    }
}

/// What may be touched: `(write) within ["target/**", "/tmp/**"]`.
fn parse_touches(tokens: &mut Tokens<'_>) -> Result<FigureSubject, SyntaxError> {
    tokens.take_required("(")?;
    let word = tokens.take_name("kind of touch", &TouchKind::ALL.map(TouchKind::name))?;
    let kind = TouchKind::from_name(word).unwrap_or_default();
    tokens.take_required(")")?;
    tokens.take_required("within")?;
    tokens.take_required("[")?;
    let (what, read): (_, fn(&str) -> _) = if kind.is_of_addresses() {
        (AN_ADDRESS, AllowPattern::parse_address)
    } else {
        (A_PATH, AllowPattern::parse_path)
    };
    let mut allowed = Vec::new();
    while !tokens.take_if("]") {
        allowed.push(parse_pattern(tokens, what, read)?);
        if !tokens.take_if(",") {
            tokens.take_required("]")?;
            break;
        }
    }
    Ok(FigureSubject::Touches(kind, allowed))
}

/// When files must have been synced in order: `at mark("commit")`, `before write(tcp)`.
fn parse_sync_point(tokens: &mut Tokens<'_>) -> Result<SyncPoint, SyntaxError> {
    let point = if tokens.take_if("at") {
        tokens.take_required("mark")?;
        tokens.take_required("(")?;
        let (name, _) = tokens.take_quoted("the name of a mark, like \"commit\",")?;
        SyncPoint::Mark(name.to_owned())
    } else if tokens.take_if("before") {
        tokens.take_required("write")?;
        tokens.take_required("(")?;
        let readers = SyncPoint::READERS;
        let word = tokens.take_name("reader", &readers)?;
        let known = readers.into_iter().find(|reader| *reader == word);
        SyncPoint::Told(known.unwrap_or_default())
    } else {
        return Ok(SyncPoint::End);
    };
    tokens.take_required(")")?;
    Ok(point)
}

fn parse_call(word: &str, at: usize) -> Result<FigureSubject, SyntaxError> {
    match CallSet::of_call(word) {
        Some(call) => Ok(FigureSubject::Calls(call)),
        None => Err(SyntaxError::at_offset(at, unknown_call(word))),
    }
}

fn unknown_call(word: &str) -> String {
    let others = aggregate_names().chain([TRANSFER, SYNCS, DURABLE, TOUCHES, DESCRIPTORS]);
    let others: Vec<&str> = others.collect();
    let all = Abi::NATIVE.names().chain(others.iter().copied());
    let hint = match meant_by(word).or(nearest_name(word, all)) {
        None => format!("; other names are {}", others.join(", ")),
        near => did_you_mean(near),
    };
    format!("unknown system call '{word}'{hint}")
}

/// What is expected where an address is.
const AN_ADDRESS: &str = "an address in quotes, like \"tcp:*:443\",";

/// What is expected where a path is.
const A_PATH: &str = "a path in quotes";

fn parse_end(tokens: &mut Tokens<'_>) -> Result<EndPattern, SyntaxError> {
    if tokens.take_if("*") {
        return Ok(EndPattern::default());
    }
    let (kind, has_path) = if tokens.peek().starts_with('"') {
        (None, true)
    } else {
        (Some(parse_kind(tokens)?), tokens.take_if(":"))
    };
    let path = if has_path {
        Some(parse_pattern(tokens, A_PATH, Glob::new)?)
    } else {
        None
    };
    Ok(EndPattern { kind, path })
}

fn parse_kind(tokens: &mut Tokens<'_>) -> Result<KindPattern, SyntaxError> {
    let names: Vec<&str> = KindPattern::all_names().collect();
    let name = tokens.take_name("kind of file", &names)?;
    Ok(KindPattern::from_name(name).unwrap_or(KindPattern::UNIX))
}

/// What figures can be selected by.
const SELECTORS: [&str; 8] = [
    "process", "thread", "file", "kind", "path", "caller", "span", "to",
];

fn parse_selectors(tokens: &mut Tokens<'_>) -> Result<Selectors, SyntaxError> {
    let (mut selectors, mut given) = (Selectors::default(), Vec::new());
    if !tokens.take_if("[") {
        return Ok(selectors);
    }
    loop {
        let at = tokens.token_offset();
        let key = tokens.take_name("selector", &SELECTORS)?;
        tokens.take_required("=")?;
        if given.contains(&key) {
            return Err(SyntaxError::at_offset(
                at,
                format!("'{key}' is given twice"),
            ));
        }
        given.push(key);
        match key {
            "thread" => {
                selectors.thread = Some(parse_pattern(tokens, "a name in quotes", Glob::new)?);
            }
            "file" => selectors.file = Some(parse_pattern(tokens, A_PATH, Glob::new)?),
            "path" => selectors.path = Some(parse_pattern(tokens, A_PATH, Glob::new)?),
            "to" => selectors.to = Some(parse_pattern(tokens, AN_ADDRESS, AddressPattern::new)?),
            "kind" => selectors.kind = Some(parse_kind(tokens)?),
            "caller" => {
                let what = "a function in quotes, like \"my_crate::**\",";
                selectors.caller = Some(parse_pattern(tokens, what, FunctionPattern::new)?);
            }
            "span" => {
                let (name, _) = tokens.take_quoted("the name of a span, like \"request\",")?;
                selectors.span = Some(name.to_owned());
            }
            _ => selectors.process = Some(parse_pattern(tokens, "a name in quotes", Glob::new)?),
        }
        if !tokens.take_if(",") {
            return tokens.take_required("]").map(|()| selectors);
        }
    }
}

/// Reads a pattern in quotes. If that fails, there are a message and an offset.
fn parse_pattern<T>(
    tokens: &mut Tokens<'_>,
    what: &str,
    read: fn(&str) -> Result<T, (String, usize)>,
) -> Result<T, SyntaxError> {
    let (text, at) = tokens.take_quoted(what)?;
    read(text).map_err(|(why, offset)| {
        SyntaxError::at_offset(at + offset, format!("'{text}' is not a pattern: {why}"))
    })
}

/// The name after the dot. It decides whether `time` and `exit` are aggregates or calls.
fn parse_field(
    tokens: &mut Tokens<'_>,
    name: &str,
    mut subject: FigureSubject,
) -> Result<(FigureSubject, &'static NamedField), SyntaxError> {
    let word = tokens.peek();
    if matches!(subject, FigureSubject::Run(_))
        && FigureGroup::Calls.figure_called(word).is_some()
        && let Some(names) = CallSet::of_call(name)
    {
        subject = FigureSubject::Calls(names);
    }
    let (group, of_sizes) = (subject.figure_group(), format!("{word}."));
    let figures = group.figures();
    let in_sizes = |figure: &NamedField| figure.name.strip_prefix(&of_sizes);
    let names: Vec<&str> = figures.iter().filter_map(in_sizes).collect();
    let found = if names.is_empty() {
        let names: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
        group.figure_called(tokens.take_name(&format!("figure of {name}"), &names)?)
    } else {
        tokens.advance();
        tokens.take_required(".")?;
        let figure = tokens.take_name(&format!("figure of {name}.{word}"), &names)?;
        group.figure_called(&format!("{of_sizes}{figure}"))
    };
    Ok((subject, found.unwrap_or(&figures[0])))
}

fn parse_errno(
    tokens: &mut Tokens<'_>,
    name: &str,
    figure: &NamedField,
) -> Result<String, SyntaxError> {
    if !matches!(figure.field, FigureField::Errors | FigureField::Attempts) {
        let why = format!(
            "{name}.{} has no errno; only errors and attempts have one",
            figure.name
        );
        return Err(SyntaxError::at_offset(tokens.token_offset(), why));
    }
    if let Some(errno) = errno::canonical_name(tokens.peek()) {
        tokens.advance();
        return Ok(errno.to_owned());
    }
    let names: Vec<&str> = errno::names().collect();
    tokens.take_name("errno", &names).map(str::to_owned)
}

/// The calls that name an address.
const ADDRESSING: [&str; 7] = [
    "connect", "bind", "sendto", "sendmsg", "sendmmsg", "accept", "accept4",
];

/// Why a figure cannot be selected like this; `None` if it can.
fn why_not_selectable(
    subject: &FigureSubject,
    selectors: &Selectors,
    field: FigureField,
) -> Option<&'static str> {
    let has_calls = |is_such: fn(&Spec) -> bool| match subject {
        FigureSubject::Calls(CallSet(None)) => true,
        FigureSubject::Calls(names) => names.iter().any(|name| is_such(&Spec::named(name))),
        FigureSubject::Run(_)
        | FigureSubject::Transfer(..)
        | FigureSubject::Syncs(_)
        | FigureSubject::Durable(..)
        | FigureSubject::Descriptors
        | FigureSubject::Touches(..) => false,
    };
    let by_file = selectors.are_by_file();
    let by_path = selectors.path.is_some();
    let by_caller = selectors.caller.is_some();
    let by_thread = selectors.thread.is_some();
    let by_process = selectors.process.is_some() || by_thread;
    let by_span = selectors.span.is_some();
    let by_address = selectors.to.is_some();
    let is_of_run = *subject == FigureSubject::Run(FigureGroup::Exit) || field == FigureField::Wall;
    let of_descriptors = *subject == FigureSubject::Descriptors;
    let rules = [
        (
            of_descriptors && *selectors != Selectors::of_file(selectors.file.clone()),
            "fds are selected by file= alone",
        ),
        (
            by_file && !of_descriptors && !has_calls(Spec::names_descriptor),
            "file= and kind= choose calls on a descriptor, such as read or fstat; path= those that take a path",
        ),
        (
            by_path && !has_calls(Spec::takes_path),
            "path= chooses calls that take a path; file= those on a descriptor",
        ),
        (
            by_path && (by_process || by_file || by_caller),
            "path= cannot be combined: paths are counted for the whole run",
        ),
        (
            by_path && !matches!(field, FigureField::Calls | FigureField::Errors),
            "only calls and errors are known by path",
        ),
        (
            by_thread && subject.figure_group() != FigureGroup::Calls,
            "thread= chooses calls",
        ),
        (
            by_thread && (by_file || by_caller),
            "thread= can only be combined with process=",
        ),
        (
            field.is_of_sizes() && *selectors != Selectors::default(),
            "the sizes of calls are counted for the whole run",
        ),
        (
            by_caller && subject.figure_group() != FigureGroup::Calls,
            "caller= chooses calls; via is the library function of a transfer",
        ),
        (
            by_caller && by_file,
            "it is not known which caller used which file",
        ),
        (
            by_caller && field != FigureField::Calls,
            "only calls are known by caller",
        ),
        (
            by_span && subject.figure_group() != FigureGroup::Calls,
            "span= chooses calls",
        ),
        (
            by_span && (by_process || by_file || by_path || by_caller),
            "span= cannot be combined: calls in spans are counted by their names",
        ),
        (
            by_span && field != FigureField::Calls,
            "only calls are known by span",
        ),
        (
            by_address && !has_calls(|spec| ADDRESSING.contains(&spec.name)),
            "to= chooses calls that name an address: connect, bind, sendto, sendmsg, sendmmsg, accept, accept4",
        ),
        (
            by_address && (by_process || by_file || by_path || by_caller),
            "to= cannot be combined: addresses are counted for the whole run",
        ),
        (
            by_address && !matches!(field, FigureField::Calls | FigureField::Errors),
            "only calls and errors are known by address",
        ),
        (by_process && is_of_run, "it is of the whole run"),
        (
            by_process && subject.figure_group() == FigureGroup::Syncs,
            "syncs are not told apart by process",
        ),
    ];
    let broken = rules.into_iter().find(|(is_broken, _)| *is_broken);
    broken.map(|(_, why)| why)
}
