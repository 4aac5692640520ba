//! docs/rules and the code hold together: what is cited is there, what is built is cited, what differs or is missing is
//! listed, and the links from rules to code and tests are up to date.
//!
//! `UPDATE_RULES=1` rewrites the generated parts of docs/rules instead of comparing them.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use portcullis_testkit::recorded::repository;

/// Generated files, and this file, whose examples are no citations.
const SKIPPED: &[&str] =
    &["target", ".git", "artifacts", "corpus", "recorded", "portcullis-data", "rules.rs"];
/// A range of more rules says what a module is about. It cites none of them.
const WIDEST: usize = 20;
const UPDATE: &str = "UPDATE_RULES";
const COMMAND: &str = "UPDATE_RULES=1 cargo test -p portcullis-testkit --test rules";

/// The number of a rule, such as `NA-103a` or `AT-119.3`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    prefix: String,
    number: u32,
    /// A letter, or a dot and a number.
    suffix: String,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}{}", self.prefix, self.number, self.suffix)
    }
}

impl Id {
    fn anchor(&self) -> String {
        self.to_string().to_lowercase().replace('.', "-")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Built,
    /// With the section of docs/compatibility.md, and the text that its row there begins with.
    Differs(String, String),
    NotBuilt,
    Context,
}

/// Everything that is compared, read once. With `UPDATE_RULES` the generated parts are written first, so that no test
/// meets half a file.
static REPOSITORY: LazyLock<Repository> = LazyLock::new(|| {
    let read = Repository::read();
    if std::env::var_os(UPDATE).is_none() {
        return read;
    }
    read.stale().iter().for_each(|(name, text)| fs::write(repository().join(name), text).unwrap());
    Repository::read()
});

struct Repository {
    pages: Vec<Page>,
    reader: Reader,
    /// Every text file, by its path.
    files: BTreeMap<String, String>,
    cited: Cited,
}

impl Repository {
    fn read() -> Self {
        let (pages, files) = (pages(), files());
        let reader = Reader {
            prefixes: pages.iter().map(|page| page.prefix.clone()).collect(),
            known: pages.iter().flat_map(|page| page.rules.iter().map(|(id, _)| id.clone())).collect(),
        };
        let cited = Cited::of(&reader, &files);
        Self { pages, reader, files, cited }
    }

    fn rules(&self) -> impl Iterator<Item = &(Id, State)> {
        self.pages.iter().flat_map(|page| &page.rules)
    }

    /// The pages whose generated parts are out of date, as they should be.
    fn stale(&self) -> Vec<(String, String)> {
        let citations =
            |page: &Page| (format!("docs/rules/{}.md", page.prefix), with_citations(page, &self.cited));
        let mut made: Vec<(String, String)> = self.pages.iter().map(citations).collect();
        let readme = "docs/rules/README.md";
        made.push((readme.to_owned(), with_counts(&read(readme), &self.pages)));
        made.retain(|(name, text)| read(name) != *text);
        made
    }
}

/// A page of docs/rules.
struct Page {
    prefix: String,
    title: String,
    text: String,
    rules: Vec<(Id, State)>,
}

/// One citation: all rules that it names, and whether it names each of them.
#[derive(Debug, PartialEq, Eq)]
struct Citation {
    ids: Vec<Id>,
    is_close: bool,
}

/// Reads citations. Knows the rules, to expand ranges.
struct Reader {
    prefixes: BTreeSet<String>,
    known: BTreeSet<Id>,
}

impl Reader {
    /// All citations in a text.
    fn citations(&self, text: &str) -> Vec<Citation> {
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(dash) = text[from..].find('-').map(|at| from + at) {
            from = dash + 1;
            let Some((id, mut end)) = self.id_at(text, dash) else { continue };
            let mut ids = vec![id.clone()];
            // NA-1/2/3
            while let Some((number, suffix, behind)) = text[end..].strip_prefix('/').and_then(number) {
                ids.push(Id { prefix: id.prefix.clone(), number, suffix });
                end = text.len() - behind.len();
            }
            let (mut is_close, mut beyond) = (true, None);
            if ids.len() == 1
                && let Some((last, behind)) = self.range_end(&id, &text[end..])
            {
                let within = |other: &&Id| {
                    other.prefix == id.prefix && (id.number..=last.number).contains(&other.number)
                };
                ids = self.known.iter().filter(within).cloned().collect();
                is_close = ids.len() <= WIDEST;
                // Both ends must be there, too.
                ids.extend([id.clone(), last]);
                ids.sort();
                ids.dedup();
                beyond = Some(text.len() - behind.len());
            }
            from = beyond.unwrap_or(end);
            found.push(Citation { ids, is_close });
        }
        found
    }

    /// The number around this dash, and where it ends.
    fn id_at(&self, text: &str, dash: usize) -> Option<(Id, usize)> {
        let prefix = text.get(dash.checked_sub(2)?..dash)?;
        let before = text[..dash - 2].chars().next_back();
        if !self.prefixes.contains(prefix) || before.is_some_and(|c| c.is_alphanumeric() || c == '-') {
            return None;
        }
        let (number, suffix, behind) = number(&text[dash + 1..])?;
        let mut id = Id { prefix: prefix.to_owned(), number, suffix };
        let mut end = text.len() - behind.len();
        // AT-119.3, where there is such a rule; elsewhere the dot ends a sentence.
        if let Some((part, _, behind)) = behind.strip_prefix('.').and_then(self::number) {
            let finer = Id { suffix: format!(".{part}"), ..id.clone() };
            if self.known.contains(&finer) {
                (id, end) = (finer, text.len() - behind.len());
            }
        }
        Some((id, end))
    }

    /// The other end of a range that begins with this rule, and what comes behind it.
    fn range_end<'t>(&self, first: &Id, behind: &'t str) -> Option<(Id, &'t str)> {
        let own = format!("{}-", first.prefix);
        for word in [" to ", " through ", " … ", "…", "..", "–", "-"] {
            let Some(rest) = behind.strip_prefix(word) else { continue };
            let is_word = word.contains('t');
            let rest = match rest.strip_prefix(own.as_str()) {
                Some(rest) => rest,
                None if is_word => return None,
                None => rest,
            };
            let (number, suffix, rest) = number(rest)?;
            let last = Id { prefix: first.prefix.clone(), number, suffix };
            return (last.number > first.number).then_some((last, rest));
        }
        None
    }

    /// The rules that the names of test functions speak of: `..._na_107`, `nc_6_nc_7_...`.
    fn names(&self, text: &str) -> Vec<Id> {
        let mut found = Vec::new();
        for line in text.lines().filter(|line| line.contains("fn ")) {
            let name = line.split("fn ").nth(1).and_then(|rest| rest.split(['(', '<']).next()).unwrap();
            let words: Vec<&str> = name.split('_').collect();
            for pair in words.windows(2) {
                let [prefix, number] = pair else { continue };
                // Words of everyday.
                if matches!(*prefix, "an" | "at") {
                    continue;
                }
                let Some((number, suffix, "")) = self::number(number) else { continue };
                let id = Id { prefix: prefix.to_uppercase(), number, suffix };
                found.extend(self.known.get(&id).cloned());
            }
        }
        found
    }
}

/// The number at the beginning of a text, the letter that belongs to it, and the rest.
fn number(text: &str) -> Option<(u32, String, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let number = digits.parse().ok()?;
    let mut behind = rest.chars();
    let letter = behind.next().filter(char::is_ascii_lowercase);
    match (letter, behind.clone().next()) {
        (Some(_), Some(next)) if next.is_alphanumeric() => None,
        (Some(letter), _) => Some((number, letter.to_string(), behind.as_str())),
        (None, _) => Some((number, String::new(), rest)),
    }
}

/// The pages of docs/rules, by prefix.
fn pages() -> Vec<Page> {
    let mut names: Vec<String> = fs::read_dir(repository().join("docs/rules"))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".md").map(str::to_owned))
        .filter(|name| name.len() == 2 && name.chars().all(|c| c.is_ascii_uppercase()))
        .collect();
    names.sort();
    names.into_iter().map(|prefix| page(&prefix)).collect()
}

fn page(prefix: &str) -> Page {
    let text = read(&format!("docs/rules/{prefix}.md"));
    let head = text.lines().next().unwrap();
    let title = head.strip_prefix(&format!("# {prefix}: ")).unwrap_or_else(|| panic!("{prefix}.md: {head}"));
    let mut rules = Vec::new();
    for part in text.split("<a id=\"").skip(1) {
        let (anchor, rest) = part.split_once("\"></a>").unwrap();
        let (id, state) = definition(rest).unwrap_or_else(|| panic!("{prefix}.md: {anchor} has no state"));
        assert_eq!(id.anchor(), anchor, "{prefix}.md: the anchor of {id}");
        assert_eq!(id.prefix, prefix, "{prefix}.md defines {id}");
        rules.push((id, state));
    }
    Page { prefix: prefix.to_owned(), title: title.to_owned(), text, rules }
}

/// A rule and its state: `**NA-63** (built) ...`, or the first two cells of `NA-1 [A] | built | ...`.
fn definition(text: &str) -> Option<(Id, State)> {
    let (is_row, text) = match text.strip_prefix("**") {
        Some(text) => (false, text),
        None => (true, text),
    };
    let (prefix, rest) = text.split_at_checked(2)?;
    let (number, letter, rest) = number(rest.strip_prefix('-')?)?;
    let (suffix, rest) = match rest.strip_prefix('.').and_then(self::number) {
        Some((part, _, rest)) => (format!(".{part}"), rest),
        None => (letter, rest),
    };
    let id = Id { prefix: prefix.to_owned(), number, suffix };
    let state = if is_row {
        rest.split('|').nth(1)?.trim()
    } else {
        rest.strip_prefix("**")?.trim_start().strip_prefix('(')?
    };
    Some((id, state_of(state)?))
}

/// What a text begins with: a state. The link of a difference says where it is described.
fn state_of(text: &str) -> Option<State> {
    if let Some(link) = text.strip_prefix("[differs](../compatibility.md#") {
        let (section, rest) = link.split_once(" \"")?;
        let (row, _) = rest.split_once("\")")?;
        return Some(State::Differs(section.to_owned(), row.to_owned()));
    }
    let words = [
        ("built", State::Built),
        ("context", State::Context),
        ("[not built](not-built.md)", State::NotBuilt),
    ];
    words.into_iter().find(|(word, _)| text.starts_with(word)).map(|(_, state)| state)
}

/// Every text file of the repository, by its path.
fn files() -> BTreeMap<String, String> {
    fn walk(folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().is_some_and(|name| SKIPPED.iter().any(|skipped| name == *skipped)) {
                continue;
            }
            if path.is_dir() {
                walk(&path, found);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let name = path.strip_prefix(repository()).unwrap().display().to_string();
                found.insert(name, text);
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&repository(), &mut found);
    assert!(found.len() > 100, "the repository has files");
    found
}

fn read(name: &str) -> String {
    fs::read_to_string(repository().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A text in one line, without the marks of comments: citations may go on in the next line.
fn flat(text: &str) -> String {
    let mut flat = String::with_capacity(text.len());
    for line in text.lines() {
        let line = line.trim();
        let line = ["//!", "///", "//", "#"].iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line);
        flat.push_str(line.trim());
        flat.push(' ');
    }
    flat
}

/// The product's part of a source file, and the tests in it.
fn halves<'t>(name: &str, text: &'t str) -> (&'t str, &'t str) {
    let is_source = name.starts_with("crates/") && name.contains("/src/");
    let is_test =
        name.starts_with("crates/testkit/") || name.contains("/tests/") || name.ends_with("/tests.rs");
    if !is_source || is_test {
        return ("", text);
    }
    let begins = |at: &usize| {
        let below = text[*at..].lines().skip(1).find(|line| !line.trim().starts_with("#["));
        below.is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let at = text.match_indices("#[cfg(test)]").map(|(at, _)| at).find(begins);
    text.split_at(at.unwrap_or(text.len()))
}

/// Which files cite each rule.
#[derive(Default)]
struct Cited {
    code: BTreeMap<Id, BTreeSet<String>>,
    tests: BTreeMap<Id, BTreeSet<String>>,
}

impl Cited {
    fn of(reader: &Reader, files: &BTreeMap<String, String>) -> Self {
        let mut cited = Self::default();
        for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".rs")) {
            let (code, tests) = halves(name, text);
            let close = |text: &str| -> Vec<Id> {
                let citations = reader.citations(&flat(text)).into_iter();
                citations.filter(|citation| citation.is_close).flat_map(|citation| citation.ids).collect()
            };
            for id in close(code) {
                cited.code.entry(id).or_default().insert(name.clone());
            }
            for id in close(tests).into_iter().chain(reader.names(tests)) {
                cited.tests.entry(id).or_default().insert(name.clone());
            }
        }
        cited
    }
}

#[test]
fn every_cited_rule_exists() {
    let Repository { reader, files, .. } = &*REPOSITORY;
    let mut missing = Vec::new();
    for (name, text) in files {
        let ids = reader.citations(&flat(text)).into_iter().flat_map(|citation| citation.ids);
        missing.extend(ids.filter(|id| !reader.known.contains(id)).map(|id| format!("{name}: {id}")));
    }
    assert!(missing.is_empty(), "docs/rules does not define what these files cite:\n{}", missing.join("\n"));
}

#[test]
fn every_rule_is_defined_once() {
    let mut seen = BTreeSet::new();
    for (id, _) in REPOSITORY.rules() {
        assert!(seen.insert(id.clone()), "{id} is defined twice");
    }
    assert!(seen.len() > 1_000, "the rules are found");
}

#[test]
fn what_is_built_is_cited_by_code() {
    let needs_code = |state: &State| matches!(state, State::Built | State::Differs(..));
    let uncited: Vec<String> = REPOSITORY
        .rules()
        .filter(|(id, state)| needs_code(state) && !REPOSITORY.cited.code.contains_key(id))
        .map(|(id, _)| id.to_string())
        .collect();
    assert!(
        uncited.is_empty(),
        "no code cites these rules. Cite each where it is implemented, or change its state in docs/rules: {}",
        uncited.join(", ")
    );
}

/// The rows of the tables on a page, each with the anchor of its section: the cells.
fn rows(page: &str) -> Vec<(String, Vec<String>)> {
    let mut section = String::new();
    let mut rows = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            let kept = title.to_lowercase();
            section = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-')).collect();
            section = section.replace(' ', "-");
        }
        if let Some(cells) = line.strip_prefix("| ") {
            rows.push((section.clone(), cells.split(" | ").map(str::to_owned).collect()));
        }
    }
    rows
}

#[test]
fn every_difference_has_its_row() {
    let rows = rows(&read("docs/compatibility.md"));
    for (id, state) in REPOSITORY.rules() {
        let State::Differs(section, start) = state else { continue };
        let is_there = rows.iter().any(|(at, cells)| at == section && cells[0].starts_with(start.as_str()));
        assert!(is_there, "{id}: docs/compatibility.md#{section} has no row that begins with {start:?}");
    }
}

#[test]
fn what_is_missing_is_listed() {
    let states: BTreeMap<&Id, &State> = REPOSITORY.rules().map(|(id, state)| (id, state)).collect();
    let mut listed = BTreeSet::new();
    for (_, cells) in rows(&read("docs/rules/not-built.md")) {
        let citations = REPOSITORY.reader.citations(&cells[0]);
        if citations.is_empty() {
            continue;
        }
        for citation in citations {
            let is_range = citation.ids.len() > 1;
            let (missing, others): (Vec<Id>, Vec<Id>) =
                citation.ids.into_iter().partition(|id| states.get(id) == Some(&&State::NotBuilt));
            assert!(
                is_range || others.is_empty(),
                "not-built.md lists {}, which has another state",
                others[0]
            );
            assert!(
                !missing.is_empty(),
                "not-built.md has a row without a rule that is not built: {}",
                cells[0]
            );
            listed.extend(missing);
        }
    }
    for (id, state) in states {
        let is_listed = *state != State::NotBuilt || listed.contains(id);
        assert!(is_listed, "docs/rules/not-built.md must say what is missing of {id}");
    }
}

/// The links of a rule to the files that cite it.
fn links(files: Option<&BTreeSet<String>>) -> String {
    let link = |file: &String| {
        let shown = file.strip_prefix("crates/").unwrap_or(file).replacen("/src/", "/", 1);
        format!("[{shown}](../../{file})")
    };
    files.into_iter().flatten().map(link).collect::<Vec<_>>().join(", ")
}

/// The page with the table of the files that cite its rules.
fn with_citations(page: &Page, cited: &Cited) -> String {
    let mut table = String::new();
    for (id, _) in &page.rules {
        let (code, tests) = (links(cited.code.get(id)), links(cited.tests.get(id)));
        if !code.is_empty() || !tests.is_empty() {
            writeln!(table, "| [{id}](#{}) | {code} | {tests} |", id.anchor()).unwrap();
        }
    }
    let body = match table.is_empty() {
        true => "No code and no test cites these rules yet.\n".to_owned(),
        false => format!("| Rule | Code | Tests |\n| --- | --- | --- |\n{table}"),
    };
    let start = "<!-- generated: citations -->";
    let text = page.text.split(start).next().unwrap().trim_end();
    format!(
        "{text}\n\n{start}\n\n## Where code and tests cite these rules\n\n{body}\n<!-- end of generated: citations -->\n"
    )
}

/// README.md with how many rules of each state the pages have.
fn with_counts(readme: &str, pages: &[Page]) -> String {
    let (start, end) = ("<!-- generated: counts -->\n", "<!-- end of generated: counts -->");
    let (before, rest) = readme.split_once(start).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let mut table =
        "| | Subject | Rules | built | differs | not built | context |\n| --- | --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    let mut totals = [0; 5];
    let cells = |counts: [usize; 5]| counts.map(|count| count.to_string()).join(" | ");
    for page in pages {
        let mut counts = [page.rules.len(), 0, 0, 0, 0];
        for (_, state) in &page.rules {
            let at = match state {
                State::Built => 1,
                State::Differs(..) => 2,
                State::NotBuilt => 3,
                State::Context => 4,
            };
            counts[at] += 1;
        }
        totals = std::array::from_fn(|at| totals[at] + counts[at]);
        let Page { prefix, title, .. } = page;
        writeln!(table, "| [{prefix}]({prefix}.md) | {title} | {} |", cells(counts)).unwrap();
    }
    writeln!(table, "| | All | {} |", cells(totals)).unwrap();
    format!("{before}{start}\n{table}\n{end}{after}")
}

#[test]
fn the_generated_parts_are_current() {
    let names: Vec<String> = REPOSITORY.stale().into_iter().map(|(name, _)| name).collect();
    assert!(
        names.is_empty(),
        "the links to code and tests are stale in {}. Write them anew: {COMMAND}",
        names.join(", ")
    );
}

#[test]
fn citations_are_read_with_their_lists_and_ranges() {
    let rules = "NA-1 NA-2 NA-3 NA-3a NA-4 AT-119.1 AT-119.2 RB-7";
    let mut reader =
        Reader { prefixes: ["NA", "AT", "RB"].map(str::to_owned).into(), known: BTreeSet::new() };
    let id = |text: &str| definition(&format!("{text} | built")).unwrap().0;
    reader.known = rules.split(' ').map(id).collect();
    reader.known.extend((10..40).map(|number| id(&format!("NA-{number}"))));
    let read = |text: &str| -> Vec<String> {
        let citations = reader.citations(text).into_iter();
        let shown = citations.map(|c| c.ids.iter().map(Id::to_string).collect::<Vec<_>>().join(" "));
        shown.collect()
    };
    assert_eq!(read("As NA-1, NA-3a and (RB-7)."), ["NA-1", "NA-3a", "RB-7"]);
    assert_eq!(read("NA-1/2/4: lists"), ["NA-1 NA-2 NA-4"]);
    for range in ["NA-2 to NA-4", "NA-2..NA-4", "NA-2..4", "NA-2 … NA-4", "NA-2–4"] {
        assert_eq!(read(range), ["NA-2 NA-3 NA-3a NA-4"], "{range}");
    }
    assert_eq!(read("NA-1 to 5 seconds"), ["NA-1"]);
    assert_eq!(read("AT-119.2. RB-7.5"), ["AT-119.2", "RB-7"]);
    assert_eq!(read("DNA-1, XNA-1, NA-1x9, UNA-, PRB-7"), [""; 0]);
    assert_eq!(read("NA-99"), ["NA-99"]);
    assert!(reader.citations("NA-10 to NA-29").iter().all(|citation| citation.is_close));
    assert!(reader.citations("NA-10 to NA-39").iter().all(|citation| !citation.is_close));
    assert_eq!(reader.names("fn it_holds_na_1_na_2() {"), [id("NA-1"), id("NA-2")]);
}
