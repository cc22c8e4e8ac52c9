# On the machine, in results/<study>: the runs that have a record, as a gzipped tar with a list of checksums, to standard
# output; nothing where there is none. ONLY_NEW and DEVICES are set in front of this.
set -eu
touch .next
newer=
if [ -n "$ONLY_NEW" ] && [ -e .brought ]; then newer='-newer .brought'; fi
for device in $DEVICES; do
    [ ! -d "runs/$device" ] || find "runs/$device" -name record.json $newer
done | sed 's|/record.json$||' >.runs
if [ -s .runs ]; then
    while read -r run; do find "$run" -type f ! -name '.*'; done <.runs >.files
    tr '\n' '\0' <.files | xargs -0 sha256sum >.checksums
    tar -czf - .checksums -T .files
fi
mv .next .brought
