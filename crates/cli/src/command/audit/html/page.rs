//! The whole page: the template with its parts, folded until it is small enough.

use std::io::{self, Write};

use super::content::Content;
use super::data::data;
use super::encode::script_data;
use super::escape::{number, text};
use super::findings::findings;
use super::fold::Folded;
use super::head::{first, head};
use super::nodes::{nodes, workloads};
use super::rules::{rules, steps, unchecked};
use super::ways::ways;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// The scripts; each uses only those before it.
const SCRIPTS: [&str; 7] = [
    include_str!("text.js"),
    include_str!("graph.js"),
    include_str!("columns.js"),
    include_str!("picture.js"),
    include_str!("lists.js"),
    include_str!("node.js"),
    include_str!("page.js"),
];

const TITLE: &str = "What a stolen node reaches";
/// A page of this size is too large, in bytes (AU-139, AU-151).
const TOO_LARGE: usize = 5_000_000;

/// Writes the page.
///
/// # Errors
/// The output cannot be written.
pub(in crate::command) fn write(out: &mut dyn Write, content: &Content<'_>) -> io::Result<()> {
    out.write_all(fitted(content, TOO_LARGE).as_bytes())
}

/// The page, with as many nodes folded as it takes to be below a size. Findings are never left out.
fn fitted(content: &Content<'_>, too_large: usize) -> String {
    let all = content.map.nodes.len();
    let parts = fixed_parts(content);
    let mut count = 0_usize;
    loop {
        let folded = Folded::least(content.map, count);
        let (of_nodes, of_scripts) = (nodes(content, &folded), script_data(&data(content.map, &folded)));
        let row = (of_nodes.len() / all.saturating_sub(count).max(1)).max(1);
        let mut parts = parts.clone();
        parts.extend([("nodes", of_nodes), ("data", of_scripts)]);
        let page = filled(&parts);
        if page.len() < too_large || count >= all {
            return page;
        }
        // At least one more each time, so that this ends.
        let more = (page.len().saturating_sub(too_large) / row).saturating_add(1);
        count = count.saturating_add(more).min(all);
    }
}

/// The parts that do not depend on which nodes are folded.
fn fixed_parts(content: &Content<'_>) -> Vec<(&'static str, String)> {
    let count = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{} {what}s", number(count)),
    };
    let subtitle =
        format!("{}, {}", count(content.map.nodes.len(), "node"), count(content.map.pods.len(), "pod"));
    vec![
        ("title", text(TITLE)),
        ("subtitle", subtitle),
        ("css", STYLE.to_owned()),
        ("js", SCRIPTS.join("\n")),
        ("head", head(content)),
        ("first", first(content)),
        ("ways", ways(content)),
        ("findings", findings(content)),
        ("workloads", workloads(content)),
        ("rules", rules(content)),
        ("steps", steps()),
        ("unchecked", unchecked(content)),
    ]
}

/// The template with its parts. A marker is `<!--{NAME}-->` or `/*{NAME}*/`.
fn filled(parts: &[(&'static str, String)]) -> String {
    let mut page = String::new();
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once('{') {
        let marker = ["<!--", "/*"].into_iter().find_map(|opening| before.strip_suffix(opening));
        let named = marker.and_then(|before| {
            let (name, after) = after.split_once('}')?;
            let after = after.strip_prefix("-->").or_else(|| after.strip_prefix("*/"))?;
            let (_, part) = parts.iter().find(|(known, _)| *known == name)?;
            Some((before, part, after))
        });
        match named {
            Some((before, part, after)) => {
                page.push_str(before);
                page.push_str(part);
                rest = after;
            }
            None => {
                page.push_str(before);
                page.push('{');
                rest = after;
            }
        }
    }
    page.push_str(rest);
    page
}

#[cfg(test)]
mod tests {
    use portcullis_policy::audit::reach::{
        ClusterAdmin, DirectCounts, MapNode, ReachMap, ReachSize, Vertex, VertexType,
    };

    use super::super::content::Content;
    use super::{SCRIPTS, STYLE, TEMPLATE, filled, fitted};

    /// Nodes of which each reaches one secret more than the one before; every tenth leads to admin.
    fn nodes(count: usize) -> ReachMap {
        let node = |place: usize| {
            let admin = if place.is_multiple_of(10) { ClusterAdmin::Yes } else { ClusterAdmin::No };
            let mut size = ReachSize { cluster_admin: admin, counts: Default::default() };
            size.counts.secrets.count = place;
            MapNode { direct: DirectCounts::default(), size, way: None }
        };
        let vertex = |place: usize| Vertex {
            kind: VertexType::Node,
            namespace: String::new(),
            name: format!("node-{place:03}"),
        };
        ReachMap {
            vertices: (0..count).map(vertex).collect(),
            nodes: (0..count).map(node).collect(),
            ..ReachMap::default()
        }
    }

    #[test]
    fn nodes_with_the_least_reach_are_folded_until_the_page_is_small_enough_au_139() {
        let map = nodes(100);
        let content = Content { map: &map, audited: None, incomplete: Vec::new() };
        let whole = fitted(&content, usize::MAX);
        assert!(!whole.contains("id=\"folded/"));
        let limit = whole.len() - 3000;
        let page = fitted(&content, limit);
        assert!(page.len() < limit, "{} of {}", page.len(), whole.len());
        let is_row = |place: usize| page.contains(&format!("<tbody id=\"node/node-{place:03}\">"));
        let rows: Vec<usize> = (0..100).filter(|place| is_row(*place)).collect();
        assert!(rows.contains(&0) && rows.contains(&99) && !rows.contains(&1), "{rows:?}");
        assert!(rows.len() > 20, "no more are folded than it takes: {rows:?}");
        // Those that stay reach more than those that are folded; leading to admin is more than any number.
        let least = rows.iter().filter(|place| !place.is_multiple_of(10)).min().copied();
        let expected = (1_usize..100).filter(|place| !place.is_multiple_of(10) && Some(*place) >= least);
        let kept: Vec<usize> = rows.iter().copied().filter(|place| !place.is_multiple_of(10)).collect();
        assert_eq!(kept, expected.collect::<Vec<usize>>());
        let folded = format!("the {} nodes with the least reach are folded", 100 - rows.len());
        assert!(page.contains(&folded), "{folded}");
        assert!(page.contains("node-001 node-002"), "folded nodes are named");
        assert!(fitted(&content, 1).contains("100 nodes with the least reach"), "all of them at most");
    }

    #[test]
    fn scripts_and_style_end_where_they_should() {
        for part in SCRIPTS.iter().chain([&STYLE]) {
            let part = part.to_lowercase();
            for end in ["</script", "</style", "<!--"] {
                assert!(!part.contains(end), "{end}");
            }
        }
    }

    #[test]
    fn every_marker_of_the_template_is_filled() {
        let parts = [
            "title",
            "subtitle",
            "css",
            "js",
            "head",
            "first",
            "ways",
            "findings",
            "workloads",
            "rules",
            "steps",
            "unchecked",
            "nodes",
            "data",
        ]
        .map(|name| (name, "<!--{".to_owned()));
        let page = filled(&parts);
        let markers = TEMPLATE.matches("<!--{").count() + TEMPLATE.matches("/*{").count();
        // What a part holds is not read again.
        assert_eq!(page.matches("<!--{").count(), markers);
        assert_eq!(markers, 15);
        assert!(!page.contains("/*{"));
    }
}
