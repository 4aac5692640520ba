//! The answer in the language of Graphviz: the paths of the report as one graph.
//!
//! Each thing and each edge is drawn once, however many paths share it. Names come from objects, so they are hostile input: every
//! one is quoted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};

use portcullis_policy::audit::reach::{NodeReach, Report};

/// The edge that needs something that others must do (AU-64).
const CONDITIONAL: &str = "E26";

/// A text in quotes.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for char in self.0.chars() {
            match char {
                '"' | '\\' => write!(f, "\\{char}")?,
                char if char.is_control() => {
                    write!(f, "{}", char.escape_unicode().to_string().replace('\\', "\\\\"))?
                }
                char => write!(f, "{char}")?,
            }
        }
        f.write_str("\"")
    }
}

/// Writes the graph: what nodes reach, by the paths of the report; without closures what they reach by themselves.
pub(super) fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let mut graph = Graph::default();
    report.nodes.iter().for_each(|node| graph.add(node));
    writeln!(out, "digraph reach {{")?;
    writeln!(out, "  rankdir=LR;")?;
    writeln!(out, "  node [shape=box, fontname=\"sans-serif\"];")?;
    writeln!(out, "  edge [fontname=\"sans-serif\", fontsize=10];")?;
    for name in &graph.vertices {
        writeln!(out, "  {}{};", Quoted(name), style(name))?;
    }
    for ((from, to), edges) in &graph.edges {
        let label = edges.iter().map(|(id, _)| *id).collect::<BTreeSet<_>>();
        let label = label.into_iter().collect::<Vec<_>>().join(", ");
        write!(out, "  {} -> {} [", Quoted(from), Quoted(to))?;
        if !label.is_empty() {
            write!(out, "label={}", Quoted(&label))?;
        }
        let grants: Vec<&str> =
            edges.iter().map(|(_, grant)| grant.as_str()).filter(|grant| !grant.is_empty()).collect();
        if !grants.is_empty() {
            write!(out, ", tooltip={}", Quoted(&grants.join("; ")))?;
        }
        if edges.iter().all(|(id, _)| *id == CONDITIONAL) && !label.is_empty() {
            write!(out, ", style=dashed")?;
        }
        writeln!(out, "];")?;
    }
    writeln!(out, "}}")
}

/// How a thing is drawn, by its type.
fn style(name: &str) -> &'static str {
    match name.split('/').next().unwrap_or_default() {
        "admin" => " [shape=doubleoctagon]",
        "node" => " [shape=box3d]",
        "secret" | "configmap" => " [shape=note]",
        "serviceaccount" | "user" | "group" => " [shape=ellipse]",
        "persistentvolume" | "persistentvolumeclaim" | "claim" | "volume" => " [shape=cylinder]",
        _ => "",
    }
}

/// The graph, sorted: the same report gives the same bytes (AU-131).
#[derive(Default)]
struct Graph<'a> {
    vertices: BTreeSet<String>,
    /// The number of each edge, and the grant that makes it, by where it comes from and where it leads.
    edges: BTreeMap<(String, String), BTreeSet<(&'a str, String)>>,
}

impl<'a> Graph<'a> {
    fn add(&mut self, reach: &'a NodeReach) {
        let node = format!("node/{}", reach.node);
        self.vertices.insert(node.clone());
        let Some(closure) = &reach.closure else {
            for (list, names) in reach.direct.each() {
                let kind = list.strip_suffix('s').unwrap_or(list);
                for name in names {
                    self.edge(&node, &format!("{kind}/{name}"), "", String::new());
                }
            }
            return;
        };
        for edge in closure.paths.iter().flat_map(|path| &path.edges) {
            let grant = edge.grant.as_ref().map(ToString::to_string).unwrap_or_default();
            self.edge(&edge.from, &edge.to, &edge.id, grant);
        }
    }

    fn edge(&mut self, from: &str, to: &str, id: &'a str, grant: String) {
        self.vertices.insert(from.to_owned());
        self.vertices.insert(to.to_owned());
        let edges = self.edges.entry((from.to_owned(), to.to_owned())).or_default();
        edges.insert((id, grant));
    }
}
