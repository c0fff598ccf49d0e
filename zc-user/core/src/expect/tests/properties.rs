//! Properties: a random expectation is read as it was printed, and no text makes the parser panic.

use proptest::{collection::vec, prelude::*, sample::select, test_runner::TestRunner};

use super::{report_of, scene};
use crate::{
    errno,
    expect::{
        Expectation,
        ast::{At, Comparison, Equality, Expr, Figure, NONE, Op, Range, Selectors, Test},
        field::{Dimension, Field, Subject, aggregates},
        function::FunctionPattern,
        parser::{why_not_by_caller, why_not_by_file, why_not_by_path},
        pattern::{EndPattern, Glob, KindPattern},
        value::Number,
    },
    report::Api,
    syscalls::{self, Abi},
};

fn subject() -> impl Strategy<Value = Subject> {
    let is_plain = |name: &&str| {
        *name != "ioctl" && Subject::aggregate(name).is_none() && Abi::is_native(name)
    };
    let calls: Vec<&str> = syscalls::known_names().filter(is_plain).collect();
    // These have the names of aggregates, or a syntax of their own.
    let special: Vec<&str> = ["time", "exit", "ioctl"]
        .into_iter()
        .filter(|name| Abi::is_native(name))
        .collect();
    let classes: Vec<&str> = syscalls::class_names().collect();
    prop_oneof![
        4 => select(calls).prop_map(|name| Subject::Call(name.to_owned())),
        2 => select(classes).prop_map(|name| Subject::Class(name.to_owned())),
        3 => select(aggregates().collect::<Vec<_>>()).prop_map(|name| Subject::aggregate(name).expect("is one")),
        1 => select(special).prop_map(|name| Subject::Call(name.to_owned())),
        3 => (end(), end()).prop_map(|(from, to)| Subject::Transfer(from, to)),
    ]
}

fn glob() -> impl Strategy<Value = Glob> {
    "[a-z.*?/ \"\\\\\u{e9}-]{1,12}".prop_filter_map("a pattern", |text| Glob::new(&text).ok())
}

fn function() -> impl Strategy<Value = FunctionPattern> {
    "[a-z*?_{}&: \"\\\\]{1,12}"
        .prop_filter_map("a pattern", |text| FunctionPattern::new(&text).ok())
}

fn kind() -> impl Strategy<Value = KindPattern> {
    select(KindPattern::names().collect::<Vec<_>>())
        .prop_map(|name| KindPattern::find(name).expect("is one"))
}

fn end() -> impl Strategy<Value = EndPattern> {
    (proptest::option::of(kind()), proptest::option::of(glob()))
        .prop_map(|(kind, path)| EndPattern { kind, path })
}

fn selectors(subject: &Subject, field: Field) -> impl Strategy<Value = Selectors> + use<> {
    let by_process = !matches!(subject, Subject::Exit) && field != Field::Wall;
    let by_file = why_not_by_file(subject).is_none();
    let globs = [(); 3].map(|()| proptest::option::of(glob()));
    let subject = subject.clone();
    (
        globs,
        proptest::option::of(kind()),
        proptest::option::of(function()),
    )
        .prop_map(move |([process, file, path], kind, caller)| {
            let others = Selectors {
                process: process.filter(|_| by_process),
                file: file.filter(|_| by_file),
                kind: kind.filter(|_| by_file),
                path: None,
                caller: None,
            };
            let path = path.filter(|_| why_not_by_path(&subject, &others, field).is_none());
            let others = Selectors { path, ..others };
            let caller = caller.filter(|_| why_not_by_caller(&subject, &others, field).is_none());
            Selectors { caller, ..others }
        })
}

fn figure() -> impl Strategy<Value = Figure> {
    let with_field = subject().prop_flat_map(|subject| {
        let fields: Vec<Field> = subject.fields().iter().map(|line| line.field).collect();
        (Just(subject), select(fields))
    });
    let errno = proptest::option::of(select(errno::names().collect::<Vec<_>>()));
    let with_selectors = with_field.prop_flat_map(|(subject, field)| {
        let selectors = selectors(&subject, field);
        (Just(subject), Just(field), selectors)
    });
    (with_selectors, errno).prop_map(|((subject, field, selectors), errno)| {
        let errno = errno.filter(|_| matches!(field, Field::Errors | Field::Attempts));
        Figure {
            subject,
            selectors,
            field,
            errno,
            at: At(0),
        }
    })
}

fn number(dimension: Dimension) -> BoxedStrategy<Number> {
    let amount = match dimension {
        // No signal has the number 0.
        Dimension::Signal => (1..65_u64).boxed(),
        Dimension::Status => (0..256_u64).boxed(),
        _ => prop_oneof![
            0..300_u64,
            any::<u64>(),
            (0..64_u32).prop_map(|shift| 1 << shift),
            (0..9_u64).prop_map(|n| n * 60_000_000_000)
        ]
        .boxed(),
    };
    amount
        .prop_map(move |amount| Number { amount, dimension })
        .boxed()
}

fn test_of(dimension: Dimension) -> BoxedStrategy<Test> {
    let equality = select(vec![Equality::Equal, Equality::NotEqual]);
    let word = |words: Vec<&'static str>| {
        (equality.clone(), select(words))
            .prop_map(|(equality, word)| Test::Word(equality, word.to_owned()))
    };
    let op = match dimension {
        Dimension::Signal => select(vec![Op::Equal, Op::NotEqual]),
        _ => select(Op::ALL.map(|(_, op)| op).to_vec()),
    };
    let compared = (op, number(dimension)).prop_map(|(op, number)| Test::Number(op, number));
    let range =
        (number(dimension), number(dimension), any::<bool>()).prop_map(|(a, b, is_inclusive)| {
            let (first, last) = if a.amount <= b.amount { (a, b) } else { (b, a) };
            Test::In(Range {
                is_inclusive: is_inclusive || first == last,
                first,
                last,
            })
        });
    match dimension {
        Dimension::Api => word(Api::ALL.map(Api::name).to_vec()).boxed(),
        Dimension::Function => (equality, "[a-z:<> \"\\\\]{1,12}")
            .prop_map(|(equality, name)| Test::Name(equality, name))
            .boxed(),
        Dimension::Signal => prop_oneof![compared, word(vec![NONE])].boxed(),
        Dimension::Status => prop_oneof![compared, range, word(vec![NONE])].boxed(),
        _ => prop_oneof![compared, range].boxed(),
    }
}

fn expr() -> impl Strategy<Value = Expr> {
    let comparison = figure().prop_flat_map(|figure| {
        let test = test_of(figure.dimension());
        (Just(figure), test)
            .prop_map(|(figure, test)| Expr::Comparison(Box::new(Comparison { figure, test })))
    });
    comparison.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| Expr::Not(Box::new(inner))),
            vec(inner.clone(), 2..4).prop_map(Expr::All),
            vec(inner, 2..4).prop_map(Expr::Any),
        ]
    })
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[test]
fn expectations_are_read_as_they_are_printed() {
    TestRunner::new(config(10_000))
        .run(&expr(), |expr| {
            let text = expr.to_string();
            let read: Expectation = text
                .parse()
                .map_err(|error| TestCaseError::fail(format!("{error}")))?;
            prop_assert_eq!(&read.expr, &expr, "{}", text);
            prop_assert_eq!(read.to_string(), text);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_lower_bound_never_contradicts_the_exact_report() {
    let (exact, mut bound) = (report_of(&scene()), report_of(&scene()));
    bound.exact = false;
    TestRunner::new(config(4000))
        .run(&expr(), |expr| {
            let expectation = Expectation {
                text: expr.to_string(),
                expr,
            };
            let (Ok(sure), Ok(unsure)) =
                (expectation.evaluate(&exact), expectation.evaluate(&bound))
            else {
                return Ok(());
            };
            let agrees =
                unsure.verdict == sure.verdict || unsure.verdict == super::Verdict::Inconclusive;
            prop_assert!(agrees, "{}\n{}", sure, unsure);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

/// An expectation with a part of it replaced by something else.
fn mutated() -> impl Strategy<Value = String> {
    (
        expr(),
        any::<(prop::sample::Index, prop::sample::Index)>(),
        "\\PC{0,4}",
    )
        .prop_map(|(expr, (from, to), with)| {
            let chars: Vec<char> = expr.to_string().chars().collect();
            let (from, to) = (from.index(chars.len()), to.index(chars.len()));
            let (from, to) = (from.min(to), from.max(to).min(from + 8).max(from.min(to)));
            chars[..from]
                .iter()
                .copied()
                .chain(with.chars())
                .chain(chars[to..].iter().copied())
                .collect()
        })
}

#[test]
fn no_text_makes_the_parser_panic() {
    let words = vec(
        select(vec![
            "read", ".", "calls", "==", "0", "(", ")", "[", "]", "transfer", "->", "*", "\"",
            "not", "and", "in", "..", "5s", "%", ",",
        ]),
        0..20,
    );
    let text = prop_oneof![
        any::<String>(),
        "\\PC{0,60}",
        words.prop_map(|words| words.join(" ")),
        mutated()
    ];
    TestRunner::new(config(10_000))
        .run(&text, |text| {
            if let Err(error) = text.parse::<Expectation>() {
                prop_assert!(
                    error.offset() <= text.len()
                        && !error.message().is_empty()
                        && !error.message().contains('\n'),
                    "{error}"
                );
                prop_assert!(error.pointer().ends_with('^'));
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}
