# Transforms a large XML document with templates, keys, sorting and numbering.
set -eu
awk 'BEGIN { print "<?xml version=\"1.0\"?><items>"
    for (i = 0; i < 12000; i++)
        printf "<item id=\"i%d\" group=\"g%d\"><name>n%d</name><v a=\"%d\">%d</v></item>\n",
            i, i % 97, i * 7919 % 503, i % 7, i * 31 % 1009
    print "</items>" }' >items.xml
cat >sheet.xsl <<'END'
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output indent="yes"/>
  <xsl:key name="group" match="item" use="@group"/>
  <xsl:template match="/items">
    <groups>
      <xsl:for-each select="item[generate-id() = generate-id(key('group', @group)[1])]">
        <xsl:sort select="@group"/>
        <group name="{@group}" n="{count(key('group', @group))}" sum="{sum(key('group', @group)/v)}">
          <xsl:apply-templates select="key('group', @group)">
            <xsl:sort select="name"/>
            <xsl:sort select="v" data-type="number" order="descending"/>
          </xsl:apply-templates>
        </group>
      </xsl:for-each>
    </groups>
  </xsl:template>
  <xsl:template match="item">
    <i><xsl:number value="position()" format="I"/>:<xsl:value-of select="concat(name, '-', v[@a &gt; 2])"/>
      <xsl:copy-of select="v"/></i>
  </xsl:template>
</xsl:stylesheet>
END
xsltproc sheet.xsl items.xml >out/groups.xml
xmllint --format out/groups.xml | sha256sum
xmllint --xpath 'string(//group[@name="g7"]/@sum)' out/groups.xml
xmllint --stream items.xml
xmllint --c14n items.xml | sha256sum
