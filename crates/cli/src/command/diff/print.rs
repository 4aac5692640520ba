//! Prints differences. Names come from the cluster, so they are escaped for the terminal.

use std::collections::BTreeSet;
use std::io::{self, Write};

use portcullis_policy::audit::diff::{Change, Lists, NodeChange, Report, Totals, WordList};
use serde_json::Value;

use crate::terminal::plain;
use crate::{table, yaml};

/// How many words a cell of a table has at most, unless it is wide.
const MOST_WORDS: usize = 8;

/// The columns of changes, and what they are of. A column that nobody has something in is left out.
const COLUMNS: [(&str, &str); 7] = [
    ("VERBS", "verbs"),
    ("GROUPS", "groups"),
    ("RESOURCES", "resources"),
    ("SUBRESOURCES", "subresources"),
    ("NAMES", "names"),
    ("NAMESPACES", "namespaces"),
    ("URLS", "nonResourceURLs"),
];

/// Prints tables for people: with `is_wide`, each way in a row of its own, and names instead of numbers.
pub(super) fn table(out: &mut dyn Write, report: &Report, is_wide: bool) -> io::Result<()> {
    let mut is_first = true;
    let mut begin = |out: &mut dyn Write, title: &str| {
        let gap = if std::mem::take(&mut is_first) { "" } else { "\n" };
        writeln!(out, "{gap}{title}")
    };
    for (title, is_gain) in [("gained:", true), ("lost:", false)] {
        let changes: Vec<&Change> =
            report.changes.iter().filter(|change| change.is_gain == is_gain).collect();
        if !changes.is_empty() {
            begin(out, title)?;
            table::columns(out, &rows(&changes, is_wide))?;
        }
    }
    if !report.reach.nodes.is_empty() {
        begin(out, "reach of nodes:")?;
        table::columns(out, &nodes(&report.reach.nodes, is_wide))?;
    }
    if report.members > 0 {
        let members = report.members;
        begin(
            out,
            &format!("note: as members of these groups the same holds for {members} others: see -o json"),
        )?;
    }
    if is_first && !report.is_cut {
        writeln!(out, "no difference")?;
    }
    Ok(())
}

fn rows(changes: &[&Change], is_wide: bool) -> Vec<Vec<String>> {
    let head = std::iter::once("SUBJECT").chain(COLUMNS.map(|(title, _)| title)).chain(["THROUGH"]);
    let mut rows: Vec<Vec<String>> = vec![head.map(str::to_owned).collect()];
    for change in changes {
        let words = |(_, factor): &(&str, &str)| match change.words.get(*factor) {
            Some(list) if is_nothing(factor, list) => String::new(),
            Some(list) => cell(list, is_wide),
            None => String::new(),
        };
        let mut row = vec![change.subject.to_string()];
        row.extend(COLUMNS.iter().map(words));
        let mut add = |way: String| rows.push(row.iter().cloned().chain([way]).collect());
        if is_wide {
            change.through.ways.iter().for_each(|way| add(way.to_string()));
            if change.through.more > 0 {
                add(format!("and {} more", change.through.more));
            }
        } else {
            add(String::new());
        }
    }
    let is_used =
        |column: &usize| rows.iter().skip(1).any(|row| row.get(*column).is_some_and(|cell| !cell.is_empty()));
    let used: Vec<usize> = (0..COLUMNS.len() + 2).filter(is_used).collect();
    let shown =
        |row: &Vec<String>| used.iter().filter_map(|at| row.get(*at)).map(|cell| plain(cell)).collect();
    rows.iter().map(shown).collect()
}

/// Whether these are requests without a subresource, as most are.
fn is_nothing(factor: &str, list: &WordList) -> bool {
    let WordList { is_all_but, words, more } = list;
    factor == "subresources"
        && !is_all_but
        && *more == 0
        && matches!(words.as_slice(), [only] if only.is_empty())
}

/// `*`, `a,b`, or `* but a,b`. No word is `""`, and a word that is a star `"*"`.
fn cell(list: &WordList, is_wide: bool) -> String {
    let most = if is_wide { usize::MAX } else { MOST_WORDS };
    let mut words: Vec<String> = list
        .words
        .iter()
        .take(most)
        .map(|word| if matches!(word.as_str(), "" | "*") { format!("\"{word}\"") } else { word.clone() })
        .collect();
    let more = list.more + list.words.len().saturating_sub(most);
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    let words = words.join(",");
    match (list.is_all_but, words.is_empty()) {
        (true, true) => "*".to_owned(),
        (true, false) => format!("* but {words}"),
        (false, _) => words,
    }
}

fn nodes(changes: &[NodeChange], is_wide: bool) -> Vec<Vec<String>> {
    let head = [
        "NODE",
        "GAINED",
        "LOST",
        "| IN THE END: ADMIN",
        "NODES",
        "PODS",
        "SECRETS",
        "CONFIGMAPS",
        "ACCOUNTS",
    ];
    let mut rows: Vec<Vec<String>> = vec![head.iter().map(|title| (*title).to_owned()).collect()];
    for change in changes {
        let mut row =
            vec![plain(&change.node), names_of(&change.gained, is_wide), names_of(&change.lost, is_wide)];
        let closure = &change.closure;
        let (was, now) = (figures(closure.was.as_ref()), figures(closure.now.as_ref()));
        let both = was.iter().zip(&now).map(|(was, now)| match was == now {
            true => now.clone(),
            false => format!("{was} -> {now}"),
        });
        row.extend(both);
        if let Some(admin) = row.get_mut(3) {
            *admin = format!("| {admin}");
        }
        rows.push(row);
    }
    rows
}

/// How many names there are in each list, or all of them.
fn names_of(lists: &Lists, is_wide: bool) -> String {
    if lists.is_empty() {
        return "-".to_owned();
    }
    let words = lists.iter().map(|(list, names)| match is_wide {
        true => format!("{list} {}", plain(&names.join(","))),
        false => format!("{list} {}", names.len()),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The cells of a closure; `-` for a node that is not there.
fn figures(totals: Option<&Totals>) -> [String; 6] {
    let Some(Totals { cluster_admin, counts }) = totals else {
        return std::array::from_fn(|_| "-".to_owned());
    };
    let names = |names: &portcullis_policy::audit::reach::Names| match names.all {
        true => "all".to_owned(),
        false => names.count.to_string(),
    };
    [
        (*cluster_admin).to_owned(),
        counts.nodes.to_string(),
        counts.pods.count.to_string(),
        names(&counts.secrets),
        names(&counts.configmaps),
        counts.serviceaccounts.to_string(),
    ]
}

/// Prints everything as JSON.
pub(super) fn json(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    writeln!(out, "{:#}", document(report)?)
}

/// Prints everything as YAML.
pub(super) fn yaml(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    write!(out, "{}", yaml::block(&document(report)?))
}

fn document(report: &Report) -> Result<Value, serde_json::Error> {
    serde_json::to_value(report)
}

/// Prints the subjects that may do something else, and the nodes that reach something else, one a line.
pub(super) fn names(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let subjects = report.changes.iter().map(|change| change.subject.to_string());
    let nodes = report.reach.nodes.iter().map(|change| format!("node/{}", change.node));
    for name in subjects.chain(nodes).collect::<BTreeSet<String>>() {
        writeln!(out, "{}", plain(&name))?;
    }
    Ok(())
}
