//! Traces a closure or a command many times in one process, as tests do: `many_traces closures 50`
//! or `many_traces commands 20`. Prints how long the first trace took, and the others.

use std::{env, error::Error, time::Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [what, count] = words.as_slice() else {
        return Err("usage: many_traces closures|commands COUNT".into());
    };
    let mut times_ms = Vec::new();
    for _ in 0..count.parse::<u32>()? {
        let start = Instant::now();
        match what.as_str() {
            "closures" => drop(zctrace::trace(|| std::fs::read("/proc/self/status"))?),
            _ => drop(zctrace::Command::new("true").report()?),
        }
        times_ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let first = times_ms.first().copied().unwrap_or_default();
    let mut others = times_ms.split_off(times_ms.len().min(1));
    others.sort_by(f64::total_cmp);
    println!("first {first:.1} ms");
    if let (Some(least), Some(most)) = (others.first(), others.last()) {
        let median = others[others.len() / 2];
        println!("others: median {median:.1}, least {least:.1}, most {most:.1} ms");
    }
    Ok(())
}
