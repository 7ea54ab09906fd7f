//! Runs the example, whose assertions check its claims.

#[path = "../examples/workflow.rs"]
#[allow(dead_code, reason = "its worker's end is compared, not shown")]
mod workflow;

#[test]
fn the_workflow_runs() {
    workflow::main().unwrap();
}
