//! No step of a request is quadratic in the number of entries that a caller sends. For every list and map of every kind,
//! four times the entries may cost about four times the work.
//!
//! Which steps to look at closely is searched by CPU time. What decides is the number of instructions that valgrind counts,
//! so that a busy machine fails no test.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop at once and say where"
)]
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this runs itself under valgrind, with the step in the environment, and prints counts"
)]

mod documents;
mod steps;

use std::collections::HashSet;
use std::hint::black_box;
use std::num::NonZero;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use portcullis_kinds::Kinds;
use portcullis_kinds::resource::Resource;
use portcullis_testkit::tool;

use documents::{Place, VARIANTS, Variant, places_of};
use steps::{Prepared, Step};

/// The numbers of entries with which steps are searched, next to a quarter of them: the first with which the document
/// does not have more values than one may have.
const SEARCHED: [usize; 3] = [300, 150, 75];
/// Names the step that a program under valgrind runs: kind, place, variant, whether its kind or its schema determines it,
/// step and number of entries, separated by `|`.
const ONE_STEP: &str = "PORTCULLIS_GROWTH_STEP";

/// The CPU time of this thread for some work, in nanoseconds; the least of some attempts.
fn time(attempts: usize, work: &dyn Fn()) -> u64 {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
    };
    let once = |_| {
        let before = now();
        work();
        now() - before
    };
    (0..attempts).map(once).min().unwrap()
}

/// Whether four times the entries take clearly more than four times the time. Linear steps do too, now and then.
fn is_suspect(few: u64, many: u64) -> bool {
    many > 300_000 && many > few * 6
}

/// The work that valgrind counts.
#[inline(never)]
fn counted_work(work: &dyn Fn()) {
    work();
}

/// The number of instructions of a step, which another run of this program executes under valgrind.
fn instructions(step: &str) -> u64 {
    let program = std::env::current_exe().unwrap();
    let mut command: Command = tool::command("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*counted_work*"]);
    command.arg(program).args(["one_step_under_valgrind", "--exact", "--test-threads=1"]);
    let done = tool::Finished::of(command.env(ONE_STEP, step));
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let count = done.stderr.lines().find_map(|line| line.split_once("Collected : ")).expect("a count");
    count.1.trim().parse().unwrap()
}

/// Whether the work grows faster than the number of entries. What comes on top from twice to four times as many entries is
/// twice of what came on top before, if it does not; four times, if each entry meets each other.
fn is_quadratic(step: &str, count: usize) -> bool {
    let of = |times: usize| instructions(&format!("{step}|{}", count * times));
    let (one, four) = (of(1), of(4));
    println!("{step}: {one} to {four} instructions");
    if four * 10 < one * 45 {
        return false;
    }
    let two = of(2);
    let (first, second) = (two.saturating_sub(one), four.saturating_sub(two));
    println!("{first} and {second} on top");
    second * 10 > first * 23 && second > 100_000
}

/// Runs the step that the environment names; nothing when the tests run.
#[test]
fn one_step_under_valgrind() {
    let Ok(step) = std::env::var(ONE_STEP) else { return };
    let [kind, place, variant, of, name, count] = step.split('|').collect::<Vec<_>>()[..] else {
        panic!("{step}")
    };
    let count = count.parse().unwrap();
    if kind == "planted" {
        return counted_work(&|| planted(count));
    }
    let row = Kinds::built_in().rows().find(|row| id(row) == kind).unwrap();
    let place = places_of(row).into_iter().find(|found| found.way.join(".") == place).unwrap();
    let variant = VARIANTS.into_iter().find(|found| format!("{found:?}") == variant).unwrap();
    let prepared = Prepared::new(row, &place.way, variant, count, of == "schema").expect("a document");
    let steps = if of == "schema" { prepared.schema_steps() } else { prepared.kind_steps() };
    let (_, work) = steps.iter().find(|(found, _)| *found == name).unwrap();
    counted_work(work);
}

fn id(row: &Resource) -> String {
    format!("{}/{}", row.api_version(), row.kind)
}

/// The suspect steps of a list. The steps of its schema are those of every list of the same type.
fn suspects(
    row: &'static Resource,
    place: &Place,
    variant: Variant,
    has_new_schema: bool,
) -> Vec<(String, usize)> {
    let of = |count| Prepared::new(row, &place.way, variant, count, has_new_schema);
    let longest = SEARCHED.into_iter().find_map(|count| Some((count / 4, of(count)?)));
    let (count, many) = longest.expect("a document that can be read");
    let few = of(count).expect("a smaller document");
    let is_slow = |((_, few), (_, many)): &(Step<'_>, Step<'_>)| {
        is_suspect(time(1, few), time(1, many)) && is_suspect(time(5, few), time(5, many))
    };
    let mut found = Vec::new();
    let mut search = |of: &str, few: Vec<Step<'_>>, many: Vec<Step<'_>>| {
        for ((name, _), _) in few.into_iter().zip(many).filter(is_slow) {
            let place = place.way.join(".");
            found.push((format!("{}|{place}|{variant:?}|{of}|{name}", id(row)), count));
        }
    };
    search("kind", few.kind_steps(), many.kind_steps());
    if has_new_schema {
        search("schema", few.schema_steps(), many.schema_steps());
    }
    found
}

/// The rows whose lists are searched: of several versions with one schema, the stored one.
fn rows() -> impl Iterator<Item = &'static Resource> {
    let has_own_schema = |row: &&'static Resource| {
        row.version_of.is_none_or(|conversion| !std::ptr::eq(conversion.row.schema, row.schema))
    };
    let rows: Vec<_> = Kinds::built_in().rows().filter(has_own_schema).collect();
    rows.into_iter()
}

/// What is found in each of these by some work, on all processors.
fn everywhere<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> Vec<R> + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut found = Vec::new();
        while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            found.extend(work(one));
        }
        found
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn no_step_compares_each_entry_of_a_list_with_each_other() {
    let (mut searched, mut lists) = (Vec::new(), 0);
    let mut schemas = HashSet::new();
    for row in rows() {
        let mut all = places_of(row);
        // The metadata of all kinds have one schema.
        all.retain(|place| place.way[0] != "metadata" || row.kind == "ConfigMap");
        lists += all.len();
        let mut parents = HashSet::new();
        for place in all {
            // Lists next to each other make one document together.
            let is_first = parents.insert(place.way[..place.way.len() - 1].to_vec());
            let has_new_schema = schemas.insert((std::ptr::from_ref(place.owner), place.way.last().copied()));
            searched.push((row, place, is_first, has_new_schema));
        }
    }
    assert!(lists > 500, "only {lists} lists were found");
    let found = everywhere(&searched, |(row, place, is_first, has_new_schema)| {
        let variants = VARIANTS.into_iter().filter(|it| *is_first || *it != Variant::Together);
        variants.flat_map(|variant| suspects(row, place, variant, *has_new_schema)).collect()
    });
    println!("{lists} lists, {} suspects", found.len());
    let found = everywhere(&found, |(step, count)| match is_quadratic(step, *count) {
        true => vec![step.clone()],
        false => Vec::new(),
    });
    assert!(found.is_empty(), "quadratic: {found:#?}");
}

/// A step that compares each entry with each other.
fn planted(count: usize) {
    let names: Vec<String> = (0..count).map(|i| format!("a-{i}")).collect();
    let repeated = names.iter().filter(|name| names.iter().filter(|other| other == name).count() > 1);
    assert_eq!(black_box(repeated.count()), 0);
}

#[test]
fn a_step_that_compares_each_entry_with_each_other_is_found() {
    assert!(is_suspect(1_000_000, 16_000_000) && !is_suspect(1_000_000, 4_000_000));
    assert!(is_quadratic("planted||||", 75));
    // Decoding looks at each entry once.
    assert!(!is_quadratic("v1/ConfigMap|data|Distinct|schema|decode", 75));
}
