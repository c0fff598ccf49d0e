//! `cargo xtask setup`: brings a Debian or Ubuntu machine into a state where everything builds and
//! all tests run.

mod step;
mod steps;

use std::process::ExitCode;

use anyhow::{Result, ensure};
pub(crate) use step::Purpose;
use step::{Host, Readiness, SetupStep};
use steps::STEPS;
pub(crate) use steps::static_target;

/// Installs everything that development needs, or only prints what would be done.
pub(crate) fn run(only_print: bool) -> Result<ExitCode> {
    if only_print {
        print();
    } else {
        install(Purpose::Everything)?;
        try_to_install(Purpose::Benchmarking);
    }
    Ok(ExitCode::SUCCESS)
}

/// Does all steps for a purpose. It is quick and prints nothing if nothing is missing.
pub(crate) fn install(purpose: Purpose) -> Result<()> {
    let missing = try_to_install(purpose);
    let names = missing.join(", ");
    ensure!(
        missing.is_empty(),
        "set-up lacks {names}: do what the lines above say, then start again"
    );
    Ok(())
}

/// Does all steps for a purpose that can be done, and returns the names of the others.
pub(crate) fn try_to_install(purpose: Purpose) -> Vec<&'static str> {
    let host = Host::examine();
    let mut missing = Vec::new();
    for step in STEPS.iter().filter(|step| purpose.includes(step.1)) {
        if !step.install(&host) {
            let SetupStep(name, .., by_hand) = step;
            eprintln!("setup: {name} by hand: {by_hand}");
            missing.push(*name);
        }
    }
    missing
}

/// Shows the state of every step and what would be done, and does nothing.
fn print() {
    let host = Host::examine();
    for SetupStep(name, _, check, by_hand) in &STEPS {
        let (found, routes) = match check(&host) {
            Readiness::Ready(which) => {
                println!("ok       {name:16} {which}");
                continue;
            }
            Readiness::Missing { found, routes } => (found, routes),
        };
        println!("missing  {name:16} {found}");
        let mut what = "would run:";
        for route in routes {
            println!("{:26}{what} {route}", "");
            what = "or else:  ";
        }
        println!("{:26}by hand:   {by_hand}", "");
    }
}
