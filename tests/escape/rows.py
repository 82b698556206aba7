"""Where each row of the security checklist that concerns a local run is tested: a probe of src/probe/probes.def names its rows itself; this adds the tests.

test_rows.py wants every row to have a test that exists. Rows of the service (HTTP, daemon, tools, network allowlists) come with it.
"""

ROWS = {
    "A1": ["test_outside.py::test_two_boxes_have_different_uids_neither_ours"],
    "A4": ["test_outside.py::test_hostile_script_changes_nothing_on_the_host"],
    "A6": ["test_mounts.py::test_what_is_mounted_below_a_mount_is_read_only_too", "test_old_kernels.py::test_mounts_below_a_mount_are_read_only_as_on_5_10"],
    "A7": ["test_mounts.py::test_rootfs_is_the_whole_world_and_its_links_lead_nowhere"],
    "A8": ["test_attacks.py::test_a_false_proc_is_not_trusted"],
    "A9": ["test_outside.py::test_hostile_script_changes_nothing_on_the_host"],
    "A10": ["test_outside.py::test_nothing_of_one_run_is_seen_by_the_next", "test_attacks.py::test_locks_on_shared_files_end_with_the_run", "test_attacks.py::test_leases_on_shared_files_are_refused"],
    "A13": ["test_outside.py::test_hostile_script_changes_nothing_on_the_host"],
    "A14": ["test_outside.py::test_nothing_of_one_run_is_seen_by_the_next"],
    "B4": ["test_outside.py::test_init_cannot_be_reached"],
    "B10": ["test_outside.py::test_recon_finds_no_planted_host_fact"],
    "C1": ["test_outside.py::test_box_holds_three_pipes_and_nothing_else"],
    "C3": ["test_attacks.py::test_stdio_tricks_neither_block_nor_grow_the_supervisor"],
    "C4": ["test_outside.py::test_environment_of_the_host_stays_outside"],
    "C5": ["test_probes.py::test_nothing_of_the_callers_state_comes_in", "test_outside.py::test_supplementary_groups_are_gone"],
    "C6": ["test_outside.py::test_segfaults_leave_no_core_and_no_helper"],
    "C8": ["test_outside.py::test_output_cannot_forge_a_result"],
    "D1": ["test_outside.py::test_box_has_no_privilege"],
    "D2": ["test_attacks.py::test_setuid_files_of_a_root_file_system_gain_nothing"],
    "D5": ["test_outside.py::test_kill_of_glovebox_takes_the_box_along", "test_probes.py::test_selftest_holds"],
    "E1": ["test_probes.py::test_selftest_holds"],
    "E11": ["test_injection.py::test_failed_step_refuses_the_run", "test_old_kernels.py::test_missing_call_refuses_the_run_and_names_the_step"],
    "E12": ["test_probes.py::test_each_wall_holds_alone"],
    "E13": ["test_attacks.py::test_fileless_exec_is_allowed_and_confined"],
    "G1": ["test_limits.py::test_processes_end_in_eagain", "test_limits.py::test_a_fork_bomb_dies_with_its_deadline"],
    "G2": ["test_limits.py::test_memory_at_four_times_the_limit_is_stopped", "test_limits.py::test_memory_hog_costs_the_host_no_more_than_the_limit"],
    "G3": ["test_attacks.py::test_memory_by_other_doors_is_bounded"],
    "G4": ["test_attacks.py::test_memory_by_other_doors_is_bounded"],
    "G5": ["test_limits.py::test_cpu_time_of_all_processes_together_is_limited", "test_limits.py::test_cpu_percent_throttles_without_killing"],
    "G6": ["test_limits.py::test_timeout_kills_in_time"],
    "G7": ["test_probes.py::test_selftest_holds"],
    "G8": ["test_attacks.py::test_orphans_are_reaped"],
    "G9": ["test_limits.py::test_a_flood_is_counted_and_dropped", "test_limits.py::test_a_flood_costs_glovebox_no_memory"],
    "G10": ["test_run.py::test_stdin_that_nobody_reads_does_not_hold_up_the_run"],
    "G11": ["test_limits.py::test_a_million_files_end_in_enospc", "test_limits.py::test_a_sparse_file_may_be_longer_than_the_disk", "test_limits.py::test_hard_links_end_in_an_error"],
    "G14": ["test_limits.py::test_a_bad_value_is_refused_by_name"],
    "G16": ["test_attacks.py::test_too_many_arguments_are_a_clean_error"],
}

NOT_HERE = {
    "D8": "nothing is signalled by number: init by its pidfd, the rest by pidfds checked against the cgroup before and after; read supervise.c and cgroup.c",
    "E10": "there is no user-notify filter to race",
    "G13": "there is no daemon yet that would have to keep a descriptor in reserve",
    "G15": "there is no daemon yet that would have to be fair; each box has its own cpu quota",
}
