//! Parses a figure: its subject, its selectors and its name.

use super::{Kind, Parser, Problem, near_or};
use crate::{
    errno,
    expect::{
        ast::{Figure, Selector, Selectors},
        field::{Field, Subject, TRANSFER, aggregates},
        function::FunctionPattern,
        pattern::{EndPattern, Glob, KindPattern},
    },
    figures::list::Group,
    syscalls::{self, Abi, Spec, meant_by},
    words::{did_you_mean, nearest},
};

impl Parser<'_> {
    pub(super) fn figure(&mut self) -> Result<Figure, Problem> {
        let at = self.at();
        let subject = self.subject()?;
        let name = self.written_since(at).to_owned();
        let selectors_at = self.at();
        let selectors = self.selectors()?;
        if !self.take_if_sign(".") {
            let figures = subject.group().figures();
            let (first, all) = (figures[0].name, names(&subject));
            let why =
                format!("expected a figure after {name}, such as {name}.{first}; there are {all}");
            return Err(self.problem(why));
        }
        let (subject, field) = self.field(&name, subject)?;
        let errno = if self.take_if_sign(".") {
            Some(self.errno(&name, &subject, field)?)
        } else {
            None
        };
        let chosen = Chosen {
            name: &name,
            subject: &subject,
            selectors: &selectors,
            field,
        };
        if let Some(why) = chosen.why_not() {
            return Err(Problem::at(selectors_at, why));
        }
        Ok(Figure {
            text: self.written_since(at).to_owned(),
            at,
            subject,
            selectors,
            field,
            errno,
        })
    }

    fn subject(&mut self) -> Result<Subject, Problem> {
        let token = self.advance();
        let why = match token.kind {
            Kind::Word(word) if word == TRANSFER => return self.transfer(),
            Kind::Word(word) if word == "ioctl" && self.peek() == &Kind::Sign("(") => {
                return self.ioctl(token.at);
            }
            Kind::Word(word) => match Subject::aggregate(&word) {
                Some(subject) => return Ok(subject),
                None if Abi::is_native(&word) => return Ok(Subject::Call(word)),
                None => unknown_subject(&word),
            },
            Kind::Class(class) if syscalls::calls_of_class(&class).is_some() => {
                return Ok(Subject::Class(class));
            }
            Kind::Class(class) => {
                let all: Vec<&str> = syscalls::class_names().collect();
                let hint = nearest(&class, all.iter().copied()).map_or_else(
                    || format!("; classes are %{}", all.join(", %")),
                    |near| format!("; did you mean '%{near}'?"),
                );
                format!("unknown class '%{class}'{hint}")
            }
            Kind::Number(_) => "the figure comes first, as in 'write.calls == 0'".to_owned(),
            other => format!(
                "a figure is expected here, like write.calls or transfer(* -> *).api, not {}",
                other.describe()
            ),
        };
        Err(Problem::at(token.at, why))
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
        let why = format!(
            "only these ioctls are counted separately: {}",
            known.join(", ")
        );
        found
            .map(|name| Subject::Call(name.to_owned()))
            .ok_or_else(|| Problem::at(at, why))
    }

    fn transfer(&mut self) -> Result<Subject, Problem> {
        if !self.take_if_sign("(") {
            return Err(self.problem("a transfer has two ends: transfer(FROM -> TO), as in transfer(\"*.dat\" -> unix).api"));
        }
        let from = self.end()?;
        self.take_sign("->")?;
        let to = self.end()?;
        self.take_sign(")")?;
        Ok(Subject::Transfer(from, to))
    }

    fn end(&mut self) -> Result<EndPattern, Problem> {
        let token = self.advance();
        let (kind, path) = match token.kind {
            Kind::Sign("*") => (None, None),
            Kind::Quoted(text) => (None, Some(glob(&text, token.at)?)),
            Kind::Word(word) => {
                let kind = kind(&word, token.at)?;
                let has_path = self.take_if_sign(":");
                let path = has_path
                    .then(|| self.text("a path in quotes"))
                    .transpose()?;
                (Some(kind), path)
            }
            other => {
                let why = format!(
                    "an end is *, a path in quotes, or a kind like unix, not {}",
                    other.describe()
                );
                return Err(Problem::at(token.at, why));
            }
        };
        Ok(EndPattern { kind, path })
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
            let why = format!("expected a selector ({all}), as in [process=\"cp\"]");
            return Err(Problem::at(token.at, why));
        };
        let Some(selector) = Selector::from_name(&key) else {
            let hint = near_or(&key, names.into_iter(), || format!("selectors are {all}"));
            let why = format!("unknown selector '{key}'{hint}");
            return Err(Problem::at(token.at, why));
        };
        if self.take_if_sign("==") || !self.take_if_sign("=") {
            return Err(self.problem(format!("'=' is expected after '{key}', as in [{key}=...]")));
        }
        let chosen = &mut *selectors;
        let was_given = match selector {
            Selector::Process => chosen
                .process
                .replace(self.text("a name in quotes")?)
                .is_some(),
            Selector::File => chosen
                .file
                .replace(self.text("a path in quotes")?)
                .is_some(),
            Selector::Path => chosen
                .path
                .replace(self.text("a path in quotes")?)
                .is_some(),
            Selector::Caller => chosen.caller.replace(self.function_pattern()?).is_some(),
            Selector::Kind => {
                let token = self.advance();
                let (Kind::Word(word) | Kind::Quoted(word)) = token.kind else {
                    return Err(Problem::at(token.at, "a kind is needed here, like pipe"));
                };
                chosen.kind.replace(kind(&word, token.at)?).is_some()
            }
        };
        if was_given {
            return Err(Problem::at(token.at, format!("'{key}' is given twice")));
        }
        Ok(())
    }

    /// A pattern, in quotes or as a word.
    fn text(&mut self, what: &str) -> Result<Glob, Problem> {
        let (Kind::Quoted(text) | Kind::Word(text)) = self.peek().clone() else {
            return Err(self.expected(&format!("{what} is needed here")));
        };
        glob(&text, self.advance().at)
    }

    /// A pattern of function names, in quotes or as a word.
    fn function_pattern(&mut self) -> Result<FunctionPattern, Problem> {
        let (Kind::Quoted(text) | Kind::Word(text)) = self.peek().clone() else {
            return Err(
                self.expected("a function's name in quotes is needed here, like \"my_crate::**\"")
            );
        };
        pattern(&text, self.advance().at, FunctionPattern::new)
    }

    /// The name after the dot. It decides whether `time` and `exit` are aggregates or calls.
    fn field(&mut self, name: &str, subject: Subject) -> Result<(Subject, Field), Problem> {
        let token = self.advance();
        let Kind::Word(word) = token.kind else {
            let why = format!("expected a figure of {name}: {}", names(&subject));
            return Err(Problem::at(token.at, why));
        };
        if let Some(figure) = subject.group().figure_called(&word) {
            return Ok((subject, figure.field));
        }
        if matches!(subject, Subject::Run(Group::Time | Group::Exit))
            && Abi::is_native(name)
            && let Some(figure) = Group::Calls.figure_called(&word)
        {
            return Ok((Subject::Call(name.to_owned()), figure.field));
        }
        let known = subject.group().figures().iter().map(|figure| figure.name);
        let hint = near_or(&word, known, || format!("there are {}", names(&subject)));
        let why = format!("{name} has no figure '{word}'{hint}");
        Err(Problem::at(token.at, why))
    }

    fn errno(&mut self, name: &str, subject: &Subject, field: Field) -> Result<String, Problem> {
        let token = self.advance();
        if !matches!(field, Field::Errors | Field::Attempts) {
            let field = name_of(subject, field);
            let why = format!("{name}.{field} takes no errno; only errors and attempts do");
            return Err(Problem::at(token.at, why));
        }
        let Kind::Word(word) = token.kind else {
            return Err(Problem::at(
                token.at,
                "an errno is needed here, like EAGAIN",
            ));
        };
        errno::canonical(&word).ok_or_else(|| {
            let names: Vec<String> = errno::names().collect();
            let near = did_you_mean(nearest(&word, names.iter().map(String::as_str)));
            Problem::at(token.at, format!("unknown errno '{word}'{near}"))
        })
    }
}

fn glob(text: &str, at: usize) -> Result<Glob, Problem> {
    pattern(text, at, Glob::new)
}

/// Reads a pattern. If that fails, there are a message and an offset.
fn pattern<T>(
    text: &str,
    at: usize,
    read: fn(&str) -> Result<T, (String, usize)>,
) -> Result<T, Problem> {
    if text.is_empty() {
        return Err(Problem::at(at, "an empty pattern matches nothing"));
    }
    read(text).map_err(|(why, offset)| {
        Problem::at(at + 1 + offset, format!("'{text}' is not a pattern: {why}"))
    })
}

fn kind(word: &str, at: usize) -> Result<KindPattern, Problem> {
    KindPattern::find(word).ok_or_else(|| {
        let all = || {
            let names: Vec<&str> = KindPattern::names().collect();
            format!("kinds are {} (put a path in quotes)", names.join(", "))
        };
        let hint = near_or(word, KindPattern::names(), all);
        Problem::at(at, format!("unknown kind of file '{word}'{hint}"))
    })
}

fn names(subject: &Subject) -> String {
    let figures = subject.group().figures().iter();
    figures
        .map(|figure| figure.name)
        .collect::<Vec<_>>()
        .join(", ")
}

fn name_of(subject: &Subject, field: Field) -> &'static str {
    let figure = subject.group().figure_of(field);
    figure.map_or("", |figure| figure.name)
}

fn unknown_subject(word: &str) -> String {
    let native = meant_by(word);
    let mut all = syscalls::known_names().chain(syscalls::all_names());
    if all.any(|name| name == word) {
        let machine = Abi::NATIVE.name();
        let here = native.map_or_else(
            || format!("{machine} has no call of this name"),
            |name| format!("on {machine} it is '{name}'"),
        );
        return format!("'{word}' is a call of 32-bit programs: {here}");
    }
    let names = syscalls::known_names().filter(|name| Abi::is_native(name));
    let near = native.or_else(|| nearest(word, names.chain(aggregates()).chain([TRANSFER])));
    let others = || {
        let aggregates: Vec<&str> = aggregates().collect();
        format!(
            "; other names are {}, {TRANSFER}(FROM -> TO)",
            aggregates.join(", ")
        )
    };
    let hint = near.map_or_else(others, |near| did_you_mean(Some(near)));
    format!("unknown system call '{word}'{hint}")
}

/// A figure whose selectors may not fit.
struct Chosen<'a> {
    name: &'a str,
    subject: &'a Subject,
    selectors: &'a Selectors,
    field: Field,
}

impl Chosen<'_> {
    /// Why it cannot be selected like this; `None` if it can.
    fn why_not(&self) -> Option<String> {
        let Selectors {
            process,
            path,
            caller,
            ..
        } = self.selectors;
        let by_file = self.selectors.are_by_file().then(|| self.why_not_by_file());
        let by_path = path.as_ref().map(|_| self.why_not_by_path());
        let by_caller = caller.as_ref().map(|_| self.why_not_by_caller());
        let by_process = process.as_ref().map(|_| self.why_not_by_process());
        let mut whys = [by_file, by_path, by_caller, by_process].into_iter();
        whys.find_map(Option::flatten)
    }

    fn why_not_by_process(&self) -> Option<String> {
        let is_of_run = *self.subject == Subject::Run(Group::Exit) || self.field == Field::Wall;
        let name = self.name;
        is_of_run.then(|| format!("{name} cannot be selected by process: it is of the whole run"))
    }

    /// Whether any of its calls is such a call; `None` if it is not of calls.
    fn has_calls(&self, is_such: impl Fn(&str) -> bool) -> Option<bool> {
        match self.subject {
            Subject::AllCalls => Some(true),
            Subject::Call(name) => Some(is_such(name)),
            Subject::Class(class) => {
                let calls = syscalls::calls_of_class(class).unwrap_or_default();
                Some(calls.into_iter().any(is_such))
            }
            Subject::Run(_) | Subject::Transfer(..) => None,
        }
    }

    fn why_not_by_path(&self) -> Option<String> {
        let (name, field) = (self.name, name_of(self.subject, self.field));
        let has_others = self.selectors.process.is_some() || self.selectors.are_by_file();
        match self.has_calls(takes_path) {
            None => Some(format!(
                "{name} cannot be selected by path; only calls that take one can"
            )),
            Some(false) => Some(format!(
                "{name} takes no path; file= selects calls by the file of their descriptor"
            )),
            Some(true) if has_others => Some(
                "path= cannot be combined with other selectors: paths are counted for the whole run"
                    .to_owned(),
            ),
            Some(true) => (!matches!(self.field, Field::Calls | Field::Errors)).then(|| {
                format!("{name}.{field} is not known by path; only errors and calls are")
            }),
        }
    }

    fn why_not_by_caller(&self) -> Option<String> {
        let (name, field) = (self.name, name_of(self.subject, self.field));
        match self.subject {
            Subject::Transfer(..) => Some(format!(
                "{name} cannot be selected by caller; via says which library function made it"
            )),
            Subject::Run(_) => Some(format!(
                "{name} cannot be selected by caller; only calls can"
            )),
            _ if self.selectors.path.is_some() || self.selectors.are_by_file() => Some(
                "caller= can only be combined with process=: it is not known which caller used which file"
                    .to_owned(),
            ),
            _ => (self.field != Field::Calls)
                .then(|| format!("{name}.{field} is not known by caller; only calls is")),
        }
    }

    fn why_not_by_file(&self) -> Option<String> {
        let name = self.name;
        match self.has_calls(|name| Spec::named(name).names_descriptor()) {
            None => Some(format!("{name} cannot be selected by file; only calls can")),
            Some(true) => None,
            Some(false) => {
                let by_path = if matches!(self.subject, Subject::Call(name) if takes_path(name)) {
                    "; path= selects its errors by the path that it was given"
                } else {
                    ""
                };
                Some(format!(
                    "{name} cannot be selected by file: the file is known only for calls on a descriptor, such as read or fstat{by_path}"
                ))
            }
        }
    }
}

/// Whether a call takes a path.
fn takes_path(name: &str) -> bool {
    Spec::named(name).path.is_some()
}
