//! The answer as a table: a row for each node.

use portcullis_policy::audit::reach::{Closure, Names, NodeReach, Report};

use crate::terminal::plain;

/// The rows, the heading first. A wide table also has the path to everything.
pub(super) fn rows(report: &Report, is_wide: bool) -> Vec<Vec<String>> {
    let has_closure = report.nodes.iter().any(|node| node.closure.is_some());
    let mut head = vec!["NODE", "SECRETS", "CONFIGMAPS", "VOLUMES", "ACCOUNTS"];
    if has_closure {
        head.extend(["| IN THE END: ADMIN", "NODES", "PODS", "SECRETS", "ACCOUNTS"]);
    }
    if is_wide && has_closure {
        head.push("PATH TO ADMIN");
    }
    let mut rows = vec![head.into_iter().map(str::to_owned).collect()];
    rows.extend(report.nodes.iter().map(|node| row(node, is_wide)));
    rows
}

fn row(node: &NodeReach, is_wide: bool) -> Vec<String> {
    let direct = &node.direct;
    let mut row = vec![
        plain(&node.node).to_string(),
        direct.secrets.len().to_string(),
        direct.configmaps.len().to_string(),
        direct.persistentvolumes.len().to_string(),
        direct.serviceaccounts.len().to_string(),
    ];
    let Some(closure) = &node.closure else { return row };
    let all = |count: &Names| if count.all { "all".to_owned() } else { count.count.to_string() };
    row.extend([
        format!("| {}", closure.cluster_admin.as_str()),
        closure.counts.nodes.to_string(),
        closure.counts.pods.count.to_string(),
        all(&closure.counts.secrets),
        closure.counts.serviceaccounts.to_string(),
    ]);
    if is_wide {
        row.push(to_admin(closure));
    }
    row
}

/// The path to everything in one line.
fn to_admin(closure: &Closure) -> String {
    let path = closure.paths.iter().find(|path| path.to == "admin");
    let edges = path.map(|path| path.edges.as_slice()).unwrap_or_default();
    edges.iter().map(|edge| format!("{} -> {}", edge.id, plain(&edge.to))).collect::<Vec<_>>().join(" ")
}
