//! `portcullis store check`: reads every object of a store.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use portcullis_server::registry::content::{Item, resource};

use super::report::{counted, report, tell_foreign, usual_name};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::store_flags::StoreFlags;

/// Read every object of a store, and say what cannot be read
///
/// Prints for each resource how many objects there are, how many are stale (would be written in another form today, see
/// `portcullis store rewrite`), and how many cannot be read. Keys and reasons of the latter are named on standard error. Keys in
/// etcd that this version does not serve, such as those of custom objects without a definition, are counted. Reads only, at one revision.
///
/// Exit codes: 0 all objects can be read; 1 some cannot; 2 bad flags; 3 the store is in use, or cannot be read.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    store: StoreFlags,
}

const EXAMPLES: &str = "\
Examples:
  portcullis store check --etcd-servers http://127.0.0.1:2379
  portcullis store check --data-dir ./portcullis-data --encryption-provider-config encryption.yaml";

/// The values of a resource.
#[derive(Clone, Copy, Default)]
struct Counts {
    objects: u64,
    stale: u64,
    unreadable: u64,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.objects = self.objects.saturating_add(other.objects);
        self.stale = self.stale.saturating_add(other.stale);
        self.unreadable = self.unreadable.saturating_add(other.unreadable);
    }

    fn row(self, name: &str) -> Vec<String> {
        let Self { objects, stale, unreadable } = self;
        vec![name.to_owned(), objects.to_string(), stale.to_string(), unreadable.to_string()]
    }
}

/// Runs the command.
///
/// # Errors
/// Flags are invalid, or the store cannot be read.
pub(super) async fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let content = args.store.content(Duration::ZERO).await?;
    let mut source = content.source().await?;
    let mut progress = Progress::new("checked");
    let mut resources: BTreeMap<String, Counts> = BTreeMap::new();
    let mut foreign: BTreeMap<String, u64> = BTreeMap::new();
    let mut seen = 0_u64;
    loop {
        let page = source.next().await?;
        if page.is_empty() {
            break;
        }
        seen = seen.saturating_add(page.len() as u64);
        for item in page {
            let (name, found) = match item {
                Item::Object { key, is_stale, .. } => {
                    let stale = u64::from(is_stale);
                    (resource(&key).to_owned(), Counts { objects: 1, stale, unreadable: 0 })
                }
                Item::Unreadable(name, value) => {
                    report(&mut progress, &value);
                    (name, Counts { unreadable: 1, ..Counts::default() })
                }
                Item::Foreign(name) => {
                    let count = foreign.entry(name).or_default();
                    *count = count.saturating_add(1);
                    continue;
                }
            };
            resources.entry(usual_name(&name)).or_default().add(found);
        }
        progress.at(seen, source.total());
    }
    drop(progress);
    tell_foreign(&foreign);
    let mut all = Counts::default();
    let head = ["RESOURCE", "OBJECTS", "STALE", "UNREADABLE"].map(str::to_owned).to_vec();
    let mut rows = vec![head];
    for (name, counts) in &resources {
        rows.push(counts.row(name));
        all.add(*counts);
    }
    let mut out = std::io::stdout().lock();
    crate::table::columns(&mut out, &rows)?;
    writeln!(
        out,
        "\n{} at revision {}: {}, {} stale, {} cannot be read",
        args.store.describe(),
        source.revision(),
        counted(all.objects, "object"),
        all.stale,
        all.unreadable
    )?;
    Ok(ExitCode::from(u8::from(all.unreadable > 0)))
}
