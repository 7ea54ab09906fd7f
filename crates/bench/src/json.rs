//! JSON output of the figures: an array of flat objects, in a form shared by all benchmarks.

use crate::report::Row;

/// All rows of a benchmark.
pub fn array(bench: &str, rows: &[Row]) -> String {
    let objects: Vec<String> = rows.iter().map(|row| object(bench, row)).collect();
    format!("[\n  {}\n]\n", objects.join(",\n  "))
}

fn object(bench: &str, row: &Row) -> String {
    let (name, peer) = match &row.peer {
        Some((name, peer)) => (text(name), number(Some(*peer))),
        None => ("null".to_string(), "null".to_string()),
    };
    let fields = [
        ("bench", text(bench)),
        ("case", text(&row.case)),
        ("unit", text(row.unit)),
        ("ours", number(Some(row.ours))),
        ("peer_name", name),
        ("peer", peer),
        ("ratio", number(row.ratio())),
        ("must", number(row.must)),
        ("sense", text(row.sense.sign())),
    ];
    format!("{{{}}}", fields.map(|(key, value)| format!("\"{key}\": {value}")).join(", "))
}

/// JSON has no infinity and no NaN: such values become null.
fn number(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => value.to_string(),
        _ => "null".to_string(),
    }
}

fn text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_shared_form() {
        let row = Row::smaller("open \"x\"\n", "s", 0.5, ("bar", 2.0)).must(1.0);
        let expected = r#"{"bench": "engine", "case": "open \"x\"\u000a", "unit": "s", "#
            .to_string()
            + r#""ours": 0.5, "peer_name": "bar", "peer": 2, "ratio": 0.25, "must": 1, "#
            + r#""sense": "<="}"#;
        assert_eq!(array("engine", &[row]), format!("[\n  {expected}\n]\n"));
    }

    #[test]
    fn what_is_missing_is_null() {
        let mut row = Row::smaller("c", "s", f64::NAN, ("bar", 0.0));
        row.peer = None;
        let shown = object("engine", &row);
        assert!(shown.contains(r#""ours": null, "peer_name": null, "peer": null, "ratio": null"#));
        assert!(shown.contains(r#""must": null"#));
    }
}
