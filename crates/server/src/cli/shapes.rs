//! What the commands of the RESP face answer, so that their replies can be shown as rows.

use super::shape::Shape;

const VERSIONED: Shape = Shape::Record(&["value", "counter", "stamp_us", "revision"]);
const SUM: Shape = Shape::Record(&["value", "counter"]);
const HISTORY: Shape = Shape::Rows(&["counter", "value", "stamp_us", "revision"]);
const DIFFERENCES: Shape = Shape::Rows(&["contract", "key", "changed_by"]);
const TAGS: Shape = Shape::Rows(&["name", "branch", "revision"]);
const CHANGES: Shape = Shape::Rows(&["revision", "stamp_us", "branch", "contract", "key", "kind"]);

/// What a command answers, by its name in any case.
pub fn shape(name: &str) -> Shape {
    match name.to_ascii_lowercase().as_str() {
        "cell.init" | "cell.set" | "cell.cas" => Shape::One("counter"),
        "cell.get" => Shape::One("value"),
        "cell.getv" => VERSIONED,
        "cell.incr" => SUM,
        "cell.history" => HISTORY,
        "cell.list" | "branch.list" => Shape::List("name"),
        "cell.del" | "branch.delete" | "tag.del" => Shape::Did("deleted"),
        "branch.info" => Shape::Object,
        "branch.diff" => DIFFERENCES,
        "branch.fork" | "branch.merge" | "tag.set" | "txn.commit" | "revision" => {
            Shape::One("revision")
        }
        "tag.list" => TAGS,
        "feed.read" => CHANGES,
        _ => Shape::Any,
    }
}
