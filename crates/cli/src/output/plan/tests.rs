//! Dependencies in all formats.

use tidegate_model::{Gvk, Phase, Plan, Task, TaskDependency, TaskId, WaveNumbers};

use super::{PlanReport, mermaid, svg, tree};

/// Returns a plan in which the API depends on four objects, and one of them on another one.
fn plan() -> Plan {
    let mut plan = Plan::default();
    for (kind, name) in
        [("Secret", "a"), ("Secret", "b"), ("Secret", "c"), ("Secret", "d"), ("Deployment", "api")]
    {
        let task = Task::new(Phase::Sync, 0, Gvk::new("", "v1", kind), "shop", name);
        plan.push_task(task, None, Vec::new());
    }
    let one = |dependent, dependency| TaskDependency {
        dependent: TaskId(dependent),
        dependency: TaskId(dependency),
    };
    plan.dependencies = vec![one(1, 0), one(4, 0), one(4, 1), one(4, 2), one(4, 3)];
    plan
}

#[test]
fn dependencies_are_drawn() {
    let (plan, numbers) = (plan(), WaveNumbers::default());
    let report = PlanReport {
        application: "shop",
        compared_with: "nothing",
        plan: &plan,
        numbers: &numbers,
        excluded: &[],
        judges: &[],
    };
    let tree = tree::text(&report).render(false);
    assert!(tree.contains("Secret shop/b") && tree.contains("  after Secret shop/a\n"), "{tree}");
    assert!(tree.contains("  after Secret shop/a, Secret shop/b, Secret shop/c and 1 more\n"), "{tree}");
    let diagram = mermaid::diagram(&report);
    for arrow in ["  t0 --> t1\n", "  t0 --> t4\n", "  t3 --> t4\n"] {
        assert!(diagram.contains(arrow), "{diagram}");
    }
    let picture = svg::picture(&report);
    assert_eq!(picture.matches(r#"class="link""#).count(), 5, "{picture}");
}
