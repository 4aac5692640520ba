//! Events that somebody wrote to fill the memory, or the terminal of whoever reads the report.

use portcullis_policy::Mode;
use portcullis_policy::rehearsal::{Lost, ROWS, ROWS_OF_SUBJECT, Report, each_event};
use serde_json::{Value, json};

use crate::rehearsal::support::{always, counts, rehearsal, rehearse, report, secret, take, with};

/// An event for a path of a user. The path makes a row.
fn path(user: &str, path: &str) -> Value {
    let event = secret(&format!("{user}{path}"), user, "x", "allow");
    with(&with(&event, "/objectRef", Value::Null), "/requestURI", json!(path))
}

#[test]
fn one_subject_takes_no_rows_of_others_and_all_rows_are_bounded() {
    let deny = always(Mode::AlwaysDeny);
    let mut rehearsal = rehearsal();
    let events: Vec<Value> = (0..ROWS_OF_SUBJECT + 100).map(|i| path("mallory", &format!("/{i}"))).collect();
    take(&mut rehearsal, Some(deny.chain()), &events);
    take(&mut rehearsal, Some(deny.chain()), &[path("jane", "/a")]);
    assert_eq!(rehearsal.tally().rows.len(), ROWS_OF_SUBJECT + 1);
    let events: Vec<Value> = (0..ROWS).map(|i| path(&format!("user-{i}"), "/")).collect();
    take(&mut rehearsal, Some(deny.chain()), &events);
    assert_eq!(rehearsal.tally().rows.len(), ROWS);
    // What has a row goes on to be counted there.
    take(&mut rehearsal, Some(deny.chain()), &[with(&path("jane", "/a"), "/auditID", json!("again"))]);
    let report = report(&rehearsal);
    let all = (ROWS_OF_SUBJECT + 100 + 1 + ROWS + 1) as u64;
    assert_eq!(counts(&report), [all, 0, all, 0, 0]);
    let jane = json!({"kind": "User", "name": "jane"});
    let of_jane = report["changed"].as_array().unwrap().iter().find(|row| row["subject"] == jane);
    assert_eq!(of_jane.unwrap()["count"], 2);
}

#[test]
fn requests_that_never_end_are_bounded_and_each_counts_once() {
    let deny = always(Mode::AlwaysDeny);
    let events = |stage: &str| -> Vec<Value> {
        (0..70_000).map(|i| with(&path("jane", &format!("/{i}")), "/stage", json!(stage))).collect()
    };
    let mut rehearsal = rehearsal();
    take(&mut rehearsal, Some(deny.chain()), &events("ResponseStarted"));
    let early = report(&rehearsal)["noDecisions"]["early"].as_u64().unwrap();
    assert!(early > 0 && early < 70_000, "{early}");
    take(&mut rehearsal, Some(deny.chain()), &events("ResponseComplete"));
    assert_eq!(counts(&report(&rehearsal)), [70_000, 0, 70_000, 0, 0]);
}

#[test]
fn a_row_is_small_whatever_its_event() {
    let deny = always(Mode::AlwaysDeny);
    let (long, many) = ("x".repeat(1 << 20), vec!["y".repeat(1 << 10); 1000]);
    let event = path(&long, &format!("/{long}"));
    let event = with(&with(&event, "/user/groups", json!(many)), "/auditID", json!(long));
    let extra = json!({"token": [long], "more": null});
    let event = with(&with(&event, "/user/extra", extra), "/userAgent", json!(long));
    let reason = with(&event, "/annotations/authorization.k8s.io~1reason", json!(long));
    let report = rehearse(&deny, &[reason]);
    assert_eq!(counts(&report), [1, 0, 1, 0, 0]);
    let size = report.to_string().len();
    assert!(size < 8 * 1024, "{size}");
}

#[test]
fn nothing_of_bodies_queries_and_headers_is_shown() {
    let token = "eyJhbGciOi-a-token";
    let event = with(&path("jane", &format!("/x?token={token}")), "/auditID", json!("a"));
    let event = with(&event, "/requestObject", json!({"data": token}));
    let event = with(&event, "/responseObject", json!({"status": {"token": token}}));
    let event = with(&event, "/userAgent", json!(token));
    let event = with(&event, "/user/extra", json!({"token": [token]}));
    let mut rehearsal = rehearsal();
    let examples = take(&mut rehearsal, Some(always(Mode::AlwaysDeny).chain()), &[event]);
    assert_eq!(examples.len(), 1);
    let report = report(&rehearsal).to_string();
    assert!(report.contains("jane") && !report.contains(token), "{report}");
}

#[test]
fn deep_and_long_documents_are_read_in_bounded_depth() {
    let deep = format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    let event = secret("a", "jane", "db", "allow").to_string();
    let event = event.replacen('{', &format!(r#"{{"requestObject":{deep},"#), 1);
    let mut read = 0;
    each_event(event.as_bytes(), &mut |event| read += u32::from(event.is_ok())).unwrap();
    assert_eq!(read, 1);
    assert!(each_event(deep.as_bytes(), &mut |_| {}).is_err());
    let many = format!(
        r#"{{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[{}]}}"#,
        vec!["{}"; 200_000].join(",")
    );
    let mut faults = 0;
    each_event(many.as_bytes(), &mut |event| faults += u32::from(event.is_err())).unwrap();
    assert_eq!(faults, 200_000);
}

#[test]
fn the_table_is_plain_text_and_fits_a_terminal() {
    let deny = always(Mode::AlwaysDeny);
    let mut rehearsal = rehearsal();
    let account = format!("system:serviceaccount:{}:{}", "n".repeat(63), "a".repeat(120));
    let events = [
        path("jane\u{1b}[31m\r\n", "/a%07%1b%5b31m"),
        path(&account, "/metrics/of/a/service/with/a/long/path"),
        secret("b", &account, "db", "allow"),
        with(&secret("c", "jane", "db", "allow"), "/user/groups", json!([])),
    ];
    take(&mut rehearsal, Some(deny.chain()), &events);
    let report = Report::new(rehearsal.tally(), Lost { unreadable: 2, overflowed: 3, overflowed_bytes: 9 });
    for width in [80, 120] {
        let table = report.table(Some(width), false).to_string();
        for line in table.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        for part in ["NEWLY REFUSED", "UNKNOWN", "no-groups", "3 requests would be decided differently."] {
            assert!(table.contains(part), "{part}: {table}");
        }
    }
    for table in [report.table(None, true).to_string(), report.table(Some(1), false).to_string()] {
        assert!(table.chars().all(|c| c == '\n' || !c.is_control()), "{table:?}");
    }
    let full = report.table(None, false).to_string();
    assert!(full.contains(&"a".repeat(120)), "{full}");
}
