//! `docs/kubelet-api.md` equals the table in the code.

use std::fmt::Write;

use portcullis_policy::kubelet_api::{ENDPOINTS, Effect, Endpoint, Methods, Tree, Without};
use portcullis_testkit::recorded;

const BEGIN: &str = "<!-- The table is written from crates/policy/src/kubelet_api/endpoint.rs. -->\n";
const END: &str = "<!-- The end of the table. -->\n";

fn table() -> String {
    let mut table = "| Path | Methods | Answers | Subresource of `nodes` | Before 1.36, gate off | Finer, if chosen | What it \
can do | Debugging handlers off |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for endpoint in ENDPOINTS {
        let Endpoint { permission, .. } = endpoint;
        let finer = if permission.finer == permission.fine {
            String::new()
        } else {
            listed(permission.finer, " or ")
        };
        let cells = [
            paths(endpoint),
            methods(endpoint.methods),
            endpoint.returns.to_owned(),
            listed(permission.fine, " or "),
            listed(permission.coarse, " or "),
            finer,
            effect(endpoint.effect).to_owned(),
            without(endpoint.without_debugging).to_owned(),
        ];
        writeln!(table, "| {} |", cells.join(" | ")).unwrap();
    }
    table
}

fn paths(endpoint: &Endpoint) -> String {
    let path = |shape: &&str| match *shape {
        "" if endpoint.tree == Tree::Slash => format!("`{}/`", endpoint.path),
        shape => format!("`{}{shape}`", endpoint.path),
    };
    endpoint.shapes.iter().map(path).collect::<Vec<_>>().join("<br>")
}

fn methods(methods: Methods) -> String {
    match methods {
        Methods::Any => "any".to_owned(),
        Methods::Only(methods) | Methods::Acceptable(methods) => methods.join(", "),
    }
}

fn listed(words: &[&str], between: &str) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(between)
}

fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Reads => "reads",
        Effect::Changes => "changes something of the kubelet or writes to its disk",
        Effect::RunsCode => "**runs code**",
        Effect::Connects => "**connects to pods**",
    }
}

fn without(without: Without) -> &'static str {
    match without {
        Without::Stays => "the same",
        Without::Disabled => "405",
        Without::Gone => "404",
    }
}

/// `PORTCULLIS_WRITE_DOCS=1` writes the table into the page instead.
#[test]
fn the_page_for_people_holds_the_table_that_is_in_force() {
    let path = recorded::repository().join("docs/kubelet-api.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (front, rest) = page.split_once(BEGIN).expect("the page has a table");
    let (found, behind) = rest.split_once(END).expect("the table has an end");
    let table = format!("\n{}\n", table());
    if std::env::var_os("PORTCULLIS_WRITE_DOCS").is_some() {
        std::fs::write(&path, [front, BEGIN, &table, END, behind].concat()).unwrap();
        return;
    }
    assert_eq!(
        found, table,
        "PORTCULLIS_WRITE_DOCS=1 cargo test -p portcullis-policy --test library kubelet_api writes it"
    );
}
