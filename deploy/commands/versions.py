"""``headrace versions``: every set of weights, what it descends from, and which one serves."""

from deploy.commands.options import ConfigDir, DataDir, Json, admin_client, columns, when, wide


def versions(data_dir: DataDir, config_dir: ConfigDir, json: Json = False) -> None:
    """List the policy versions with their state and the rewards earned while each served."""
    import msgspec

    with admin_client(data_dir, config_dir) as client:
        rows = client.list_versions()
        rewards = {row.version: row for row in client.reward_stats()}
    if json:
        print(msgspec.json.encode(rows).decode())
        return
    table = columns("version", "parent", "state", "made", "reward", "n", "checksum")
    for row in rows:
        earned = rewards.get(row.version)
        mean, num = (f"{earned.mean:.3f}", str(earned.num)) if earned else ("—", "0")
        style = "bold green" if row.state == "serving" else None
        checksum = (row.checksum or "—")[:12]
        table.add_row(row.version, row.parent or "—", row.state, when(row.created_us), mean, num, checksum, style=style)
    wide().print(table)
