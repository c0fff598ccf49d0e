//! Parses a figure: its subject, its selectors and its name.

use super::{Kind, Parser, Problem};
use crate::{
    errno,
    expect::{
        ast::{At, Figure, Selector, Selectors},
        field::{Dimension, Field, Subject, TRANSFER, aggregates},
        function::FunctionPattern,
        pattern::{EndPattern, Glob, KindPattern},
    },
    syscalls::{self, Abi, Spec, meant_by},
    words::{did_you_mean, nearest},
};

impl Figure {
    /// Its unit.
    pub(in crate::expect) fn dimension(&self) -> Dimension {
        self.subject
            .line(self.field)
            .map_or(Dimension::Count, |line| line.dimension)
    }
}

impl Parser {
    pub(super) fn figure(&mut self) -> Result<Figure, Problem> {
        let at = self.at();
        let subject = self.subject()?;
        let selectors_at = self.at();
        let selectors = self.selectors()?;
        if !self.take_if_sign(".") {
            let fields = names(&subject);
            return Err(self.problem(format!(
                "expected a figure after {subject}, such as {subject}.{}; there are {fields}",
                subject.fields()[0].name
            )));
        }
        let (subject, field) = self.field(subject)?;
        let errno = if self.take_if_sign(".") {
            Some(self.errno(&subject, field)?)
        } else {
            None
        };
        check(&subject, &selectors, field).map_err(|why| Problem::at(selectors_at, why))?;
        Ok(Figure {
            subject,
            selectors,
            field,
            errno,
            at: At(at),
        })
    }

    fn subject(&mut self) -> Result<Subject, Problem> {
        let token = self.advance();
        match token.kind {
            Kind::Word(word) if word == TRANSFER => self.transfer(),
            Kind::Word(word) if word == "ioctl" && self.peek() == &Kind::Sign("(") => {
                self.ioctl(token.at)
            }
            Kind::Word(word) => match Subject::aggregate(&word) {
                Some(subject) => Ok(subject),
                None if Abi::is_native(&word) => Ok(Subject::Call(word)),
                None => Err(Problem::at(token.at, unknown_subject(&word))),
            },
            Kind::Class(class) if syscalls::calls_of_class(&class).is_some() => {
                Ok(Subject::Class(class))
            }
            Kind::Class(class) => {
                let near = nearest(&class, syscalls::class_names());
                let all = || {
                    format!(
                        "; classes are %{}",
                        syscalls::class_names().collect::<Vec<_>>().join(", %")
                    )
                };
                let hint = near.map_or_else(all, |near| format!("; did you mean '%{near}'?"));
                Err(Problem::at(
                    token.at,
                    format!("unknown class '%{class}'{hint}"),
                ))
            }
            Kind::Number(_) => Err(Problem::at(
                token.at,
                "the figure comes first, as in 'write.calls == 0'",
            )),
            other => Err(Problem::at(
                token.at,
                format!(
                    "a figure is expected here, like write.calls or transfer(* -> *).api, not {}",
                    other.describe()
                ),
            )),
        }
    }

    /// A variant of `ioctl` that is counted on its own.
    fn ioctl(&mut self, at: usize) -> Result<Subject, Problem> {
        self.take_sign("(")?;
        let command = self.advance();
        self.take_sign(")")?;
        let known = [syscalls::FICLONE, syscalls::FICLONERANGE];
        let found = known.into_iter().find(
            |name| matches!(&command.kind, Kind::Word(word) if *name == format!("ioctl({word})")),
        );
        let unknown = || {
            Problem::at(
                at,
                format!(
                    "only these ioctls are counted separately: {}",
                    known.join(", ")
                ),
            )
        };
        found
            .map(|name| Subject::Call(name.to_owned()))
            .ok_or_else(unknown)
    }

    fn transfer(&mut self) -> Result<Subject, Problem> {
        if self.peek() != &Kind::Sign("(") {
            return Err(self.problem("a transfer has two ends: transfer(FROM -> TO), as in transfer(\"*.dat\" -> unix).api"));
        }
        self.advance();
        let from = self.end()?;
        self.take_sign("->")?;
        let to = self.end()?;
        self.take_sign(")")?;
        Ok(Subject::Transfer(from, to))
    }

    fn end(&mut self) -> Result<EndPattern, Problem> {
        let token = self.advance();
        match token.kind {
            Kind::Sign("*") => Ok(EndPattern::default()),
            Kind::Quoted(text) => Ok(EndPattern {
                kind: None,
                path: Some(glob(&text, token.at)?),
            }),
            Kind::Word(word) => {
                let kind = Some(kind(&word, token.at)?);
                if !self.take_if_sign(":") {
                    return Ok(EndPattern { kind, path: None });
                }
                let path = Some(self.text("a path in quotes")?);
                Ok(EndPattern { kind, path })
            }
            other => Err(Problem::at(
                token.at,
                format!(
                    "an end is *, a path in quotes, or a kind like unix, not {}",
                    other.describe()
                ),
            )),
        }
    }

    fn selectors(&mut self) -> Result<Selectors, Problem> {
        let mut selectors = Selectors::default();
        if !self.take_if_sign("[") {
            return Ok(selectors);
        }
        loop {
            self.selector(&mut selectors)?;
            if !self.take_if_sign(",") {
                return self.take_sign("]").map(|()| selectors);
            }
        }
    }

    fn selector(&mut self, selectors: &mut Selectors) -> Result<(), Problem> {
        let token = self.advance();
        let names = Selector::ALL.map(Selector::name);
        let all = names.join(", ");
        let Kind::Word(key) = token.kind else {
            return Err(Problem::at(
                token.at,
                format!("expected a selector ({all}), as in [process=\"cp\"]"),
            ));
        };
        let Some(selector) = Selector::from_name(&key) else {
            let near = nearest(&key, names);
            let hint = near.map_or_else(
                || format!("; selectors are {all}"),
                |near| did_you_mean(Some(near)),
            );
            return Err(Problem::at(
                token.at,
                format!("unknown selector '{key}'{hint}"),
            ));
        };
        if self.take_if_sign("==") || !self.take_if_sign("=") {
            return Err(self.problem(format!("'=' is expected after '{key}', as in [{key}=...]")));
        }
        let is_given = match selector {
            Selector::Process => selectors
                .process
                .replace(self.text("a name in quotes")?)
                .is_some(),
            Selector::File => selectors
                .file
                .replace(self.text("a path in quotes")?)
                .is_some(),
            Selector::Path => selectors
                .path
                .replace(self.text("a path in quotes")?)
                .is_some(),
            Selector::Caller => selectors.caller.replace(self.function_pattern()?).is_some(),
            Selector::Kind => {
                let token = self.advance();
                let (Kind::Word(word) | Kind::Quoted(word)) = token.kind else {
                    return Err(Problem::at(token.at, "a kind is needed here, like pipe"));
                };
                selectors.kind.replace(kind(&word, token.at)?).is_some()
            }
        };
        if is_given {
            Err(Problem::at(token.at, format!("'{key}' is given twice")))
        } else {
            Ok(())
        }
    }

    /// A pattern, in quotes or as a word.
    fn text(&mut self, what: &str) -> Result<Glob, Problem> {
        let token = self.advance();
        match token.kind {
            Kind::Quoted(text) | Kind::Word(text) => glob(&text, token.at),
            other => Err(Problem::at(
                token.at,
                format!("{what} is needed here, not {}", other.describe()),
            )),
        }
    }

    /// A pattern of function names, in quotes or as a word.
    fn function_pattern(&mut self) -> Result<FunctionPattern, Problem> {
        let token = self.advance();
        match token.kind {
            Kind::Quoted(text) | Kind::Word(text) if !text.is_empty() => {
                FunctionPattern::new(&text).map_err(|(why, offset)| {
                    Problem::at(
                        token.at + 1 + offset,
                        format!("'{text}' is not a pattern: {why}"),
                    )
                })
            }
            Kind::Quoted(_) => Err(Problem::at(token.at, "an empty pattern matches nothing")),
            other => Err(Problem::at(
                token.at,
                format!(
                    "a function's name in quotes is needed here, like \"my_crate::**\", not {}",
                    other.describe()
                ),
            )),
        }
    }

    /// The name after the dot. It decides whether `time` and `exit` are aggregates or calls.
    fn field(&mut self, subject: Subject) -> Result<(Subject, Field), Problem> {
        let token = self.advance();
        let Kind::Word(word) = token.kind else {
            return Err(Problem::at(
                token.at,
                format!("expected a figure of {subject}: {}", names(&subject)),
            ));
        };
        if let Some(line) = subject.field(&word) {
            return Ok((subject, line.field));
        }
        let call = Subject::Call(subject.to_string());
        if matches!(subject, Subject::Time | Subject::Exit)
            && Abi::is_native(&subject.to_string())
            && let Some(line) = call.field(&word)
        {
            return Ok((call, line.field));
        }
        let near = nearest(&word, subject.fields().iter().map(|line| line.name));
        let hint = near.map_or_else(
            || format!("; there are {}", names(&subject)),
            |near| did_you_mean(Some(near)),
        );
        Err(Problem::at(
            token.at,
            format!("{subject} has no figure '{word}'{hint}"),
        ))
    }

    fn errno(&mut self, subject: &Subject, field: Field) -> Result<String, Problem> {
        let token = self.advance();
        if !matches!(field, Field::Errors | Field::Attempts) {
            let name = subject.line(field).map_or("", |line| line.name);
            return Err(Problem::at(
                token.at,
                format!("{subject}.{name} takes no errno; only errors and attempts do"),
            ));
        }
        let Kind::Word(word) = token.kind else {
            return Err(Problem::at(
                token.at,
                "an errno is needed here, like EAGAIN",
            ));
        };
        if let Some(name) = errno::canonical(&word) {
            return Ok(name);
        }
        let names: Vec<String> = errno::names().collect();
        let near = nearest(&word, names.iter().map(String::as_str));
        Err(Problem::at(
            token.at,
            format!("unknown errno '{word}'{}", did_you_mean(near)),
        ))
    }
}

fn glob(text: &str, at: usize) -> Result<Glob, Problem> {
    if text.is_empty() {
        return Err(Problem::at(at, "an empty pattern matches nothing"));
    }
    Glob::new(text).map_err(|(why, offset)| {
        Problem::at(at + 1 + offset, format!("'{text}' is not a pattern: {why}"))
    })
}

fn kind(word: &str, at: usize) -> Result<KindPattern, Problem> {
    KindPattern::find(word).ok_or_else(|| {
        let near = nearest(word, KindPattern::names());
        let all = || {
            format!(
                "; kinds are {} (put a path in quotes)",
                KindPattern::names().collect::<Vec<_>>().join(", ")
            )
        };
        let hint = near.map_or_else(all, |near| did_you_mean(Some(near)));
        Problem::at(at, format!("unknown kind of file '{word}'{hint}"))
    })
}

/// Checks that the selectors fit the subject. The error says why they do not.
fn check(subject: &Subject, selectors: &Selectors, field: Field) -> Result<(), String> {
    let by_process = !matches!(subject, Subject::Exit) && field != Field::Wall;
    if let Some(why) = why_not_by_file(subject).filter(|_| selectors.are_by_file()) {
        return Err(why);
    }
    if let Some(why) =
        why_not_by_path(subject, selectors, field).filter(|_| selectors.path.is_some())
    {
        return Err(why);
    }
    if let Some(why) =
        why_not_by_caller(subject, selectors, field).filter(|_| selectors.caller.is_some())
    {
        return Err(why);
    }
    if selectors.process.is_some() && !by_process {
        return Err(format!(
            "{subject} cannot be selected by process: it is of the whole run"
        ));
    }
    Ok(())
}

fn names(subject: &Subject) -> String {
    subject
        .fields()
        .iter()
        .map(|line| line.name)
        .collect::<Vec<_>>()
        .join(", ")
}

fn unknown_subject(word: &str) -> String {
    let native = meant_by(word);
    if syscalls::known_names()
        .chain(syscalls::all_names())
        .any(|name| name == word)
    {
        let machine = Abi::NATIVE.name();
        let here = native.map_or_else(
            || format!("{machine} has no call of this name"),
            |name| format!("on {machine} it is '{name}'"),
        );
        return format!("'{word}' is a call of 32-bit programs: {here}");
    }
    let names = syscalls::known_names().filter(|name| Abi::is_native(name));
    let near = native.or_else(|| nearest(word, names.chain(aggregates()).chain([TRANSFER])));
    let all = || {
        format!(
            "; other names are {}, {TRANSFER}(FROM -> TO)",
            aggregates().collect::<Vec<_>>().join(", ")
        )
    };
    format!(
        "unknown system call '{word}'{}",
        near.map_or_else(all, |near| did_you_mean(Some(near)))
    )
}

/// Why a figure cannot be selected by path; `None` if it can.
pub(in crate::expect) fn why_not_by_path(
    subject: &Subject,
    selectors: &Selectors,
    field: Field,
) -> Option<String> {
    let has_path = |name: &str| Spec::named(name).path.is_some();
    let takes_path = match subject {
        Subject::AllCalls => true,
        Subject::Call(name) => has_path(name),
        Subject::Class(class) => syscalls::calls_of_class(class)
            .unwrap_or_default()
            .into_iter()
            .any(has_path),
        _ => {
            return Some(format!(
                "{subject} cannot be selected by path; only calls that take one can"
            ));
        }
    };
    if !takes_path {
        return Some(format!(
            "{subject} takes no path; file= selects calls by the file of their descriptor"
        ));
    }
    if selectors.process.is_some() || selectors.are_by_file() {
        return Some(
            "path= cannot be combined with other selectors: paths are counted for the whole run"
                .to_owned(),
        );
    }
    let name = subject.line(field).map_or("", |line| line.name);
    (!matches!(field, Field::Calls | Field::Errors))
        .then(|| format!("{subject}.{name} is not known by path; only errors and calls are"))
}

/// Why a figure cannot be selected by caller; `None` if it can.
pub(in crate::expect) fn why_not_by_caller(
    subject: &Subject,
    selectors: &Selectors,
    field: Field,
) -> Option<String> {
    match subject {
        Subject::Call(_) | Subject::Class(_) | Subject::AllCalls => {}
        Subject::Transfer(..) => {
            return Some(format!(
                "{subject} cannot be selected by caller; via says which library function made it"
            ));
        }
        _ => {
            return Some(format!(
                "{subject} cannot be selected by caller; only calls can"
            ));
        }
    }
    if selectors.path.is_some() || selectors.are_by_file() {
        return Some("caller= can only be combined with process=: it is not known which caller used which file".to_owned());
    }
    let name = subject.line(field).map_or("", |line| line.name);
    (field != Field::Calls)
        .then(|| format!("{subject}.{name} is not known by caller; only calls is"))
}

/// Why the calls of a subject cannot be selected by file; `None` if they can.
pub(in crate::expect) fn why_not_by_file(subject: &Subject) -> Option<String> {
    let names_descriptor = |name: &str| Spec::named(name).names_descriptor();
    let has_descriptors = match subject {
        Subject::AllCalls => true,
        Subject::Call(name) => names_descriptor(name),
        Subject::Class(class) => syscalls::calls_of_class(class)
            .unwrap_or_default()
            .into_iter()
            .any(names_descriptor),
        _ => {
            return Some(format!(
                "{subject} cannot be selected by file; only calls can"
            ));
        }
    };
    let why = || {
        let path = if matches!(subject, Subject::Call(name) if Spec::named(name).path.is_some()) {
            "; path= selects its errors by the path that it was given"
        } else {
            ""
        };
        format!(
            "{subject} cannot be selected by file: the file is known only for calls on a descriptor, such as read or fstat{path}"
        )
    };
    (!has_descriptors).then(why)
}
